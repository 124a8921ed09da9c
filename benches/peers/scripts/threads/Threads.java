// The workloads of threads.py: `Threads WORKLOAD OPERATIONS`, on one carrier.
import java.util.concurrent.SynchronousQueue;

public class Threads {
    static long sum = 0;

    public static void main(String[] args) throws Exception {
        int n = Integer.parseInt(args[1]);
        Thread main = Thread.startVirtualThread(() -> {
            try {
                switch (args[0]) {
                    case "yield" -> yields(n);
                    case "spawn" -> spawns(n);
                    case "message" -> messages(n);
                    case "million" -> many(n);
                    default -> throw new IllegalArgumentException(args[0]);
                }
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
        main.join();
    }

    static void yields(int n) throws InterruptedException {
        Runnable task = () -> {
            for (int i = 0; i < n / 2; i++) Thread.yield();
        };
        Thread a = Thread.startVirtualThread(task), b = Thread.startVirtualThread(task);
        a.join();
        b.join();
    }

    static void spawns(int n) throws InterruptedException {
        for (int i = 0; i < n; i++) Thread.startVirtualThread(() -> {}).join();
    }

    static void messages(int n) throws InterruptedException {
        SynchronousQueue<Integer> there = new SynchronousQueue<>(), back = new SynchronousQueue<>();
        Thread echo = Thread.startVirtualThread(() -> {
            try {
                for (int i = 0; i < n / 2; i++) back.put(there.take());
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
        for (int i = 0; i < n / 2; i++) {
            there.put(i);
            if (back.take() != i) throw new IllegalStateException("another number came back");
        }
        echo.join();
    }

    // Fair, so that it is a queue: a million threads on a stack would be woken last first.
    static void many(int n) throws InterruptedException {
        SynchronousQueue<Integer> gate = new SynchronousQueue<>(true);
        Thread[] all = new Thread[n];
        Runnable task = () -> {
            try {
                int value = gate.take();
                sum += value;
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        };
        for (int i = 0; i < n; i++) all[i] = Thread.startVirtualThread(task);
        Thread.yield();
        for (int i = 0; i < n; i++) gate.put(1);
        for (Thread t : all) t.join();
        if (sum != n) throw new IllegalStateException("not all were woken");
    }
}
