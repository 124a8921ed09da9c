//! The threads of a script on several carriers.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::ThreadId;

use pirn::vm::{Builder, Channel, Error, Vm, compile};

fn load(builder: Builder, source: &str) -> Vm {
    builder.load(&compile(source).unwrap_or_else(|error| panic!("{error}"))).unwrap()
}

/// Runs a program on 1, 2 and 4 carriers, as it is and with a collection wherever there can be one.
fn everywhere(source: &str, expected: i32) {
    for carriers in [1, 2, 4] {
        for stress in [false, true] {
            let mut vm = load(Vm::builder().carriers(carriers).gc_stress(stress), source);
            for _ in 0..3 {
                assert_eq!(vm.run().unwrap(), expected, "{carriers} carriers, stress: {stress}");
            }
        }
    }
}

/// A native function that notes on which OS threads it is called.
fn noting() -> (impl Fn() + Send + Sync + 'static, Arc<Mutex<HashSet<ThreadId>>>) {
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let noted = seen.clone();
    let note = move || {
        noted.lock().unwrap().insert(std::thread::current().id());
    };
    (note, seen)
}

/// A native function that notes the calling OS thread, and says how many there were so far.
fn counting() -> impl Fn() -> i32 + Send + Sync + 'static {
    let (note, seen) = noting();
    move || {
        note();
        seen.lock().unwrap().len() as i32
    }
}

#[test]
fn two_threads_run_at_once_and_collect_meanwhile() {
    // It ends only when two OS threads have run threads of the script, each of which waits for the other in
    // each round.
    let source = "
        import thread;
        native int carriers();
        class Meeting {
            public AtomicInt arrived; public Meeting() { arrived = AtomicInt(0); }
            public int work() {
                int wrong = 0;
                for (int round = 1; round <= 10; round += 1) {
                    arrived.add(1);
                    while (arrived.get() < 2 * round) { }
                    carriers();
                    List<string> own = {};
                    for (int i = 0; i < 20; i += 1) { own.add(\"${round}\" + \"${i}\"); }
                    for (int i = 0; i < 20; i += 1) { if (own[i] != \"${round}${i}\") { wrong += 1; } }
                }
                return wrong;
            }
        }
        int main() {
            int wrong = 0;
            while (carriers() < 2) {
                Meeting meeting = Meeting();
                Future<int> other = thread.spawn(meeting.work);
                wrong += meeting.work() + other.get();
            }
            return wrong;
        }";
    let builder = Vm::builder().carriers(2).gc_stress(true).native("carriers", counting());
    let mut vm = load(builder, source);
    assert_eq!(vm.run().unwrap(), 0);
    assert!(vm.stats().collections > 100);
}

#[test]
fn a_thread_that_computes_comes_to_the_collections_of_others() {
    let source = "
        import thread;
        class Flag {
            public AtomicInt begun; public AtomicInt up;
            public Flag() { begun = AtomicInt(0); up = AtomicInt(0); }
            public int spin() {
                begun.set(1);
                int trips = 0;
                while (up.get() == 0) { trips = 1; }
                return trips;
            }
        }
        int main() {
            Flag flag = Flag();
            Future<int> spinning = thread.spawn(flag.spin);
            while (flag.begun.get() == 0) { }
            int length = 0;
            for (int i = 0; i < 1000; i += 1) { length += \"${i}\".length(); }
            flag.up.set(1);
            spinning.get();
            return length;
        }";
    let mut vm = load(Vm::builder().carriers(2).gc_stress(true), source);
    assert_eq!(vm.run().unwrap(), 10 + 90 * 2 + 900 * 3);
    assert!(vm.stats().collections >= 1000);
}

#[test]
fn pairs_of_producers_and_consumers_lose_nothing() {
    everywhere(
        "
        import thread;
        class Pair {
            public Channel<string> values; public int base;
            public Pair(int capacity, int base) { values = Channel<string>(capacity); this.base = base; }
            public void produce() {
                for (int i = 0; i < 60; i += 1) { int n = base + i; values.send(\"${n}\"); }
                values.close();
            }
            public int consume() {
                int sum = 0; int next = base;
                try { while (true) {
                    int n = values.recv().toInt();
                    assert(n == next); next += 1; sum += n - base;
                } } catch (ChannelClosedException e) { }
                return sum;
            }
        }
        int main() {
            List<Future<int>> sums = {};
            for (int i = 0; i < 6; i += 1) {
                Pair pair = Pair(i % 3, i * 1000);
                thread.spawn(pair.produce);
                sums.add(thread.spawn(pair.consume));
            }
            int sum = 0;
            foreach (Future<int> one in sums) { sum += one.get(); }
            return sum;
        }",
        6 * 60 * 59 / 2,
    );
}

#[test]
fn many_threads_send_through_one_channel() {
    everywhere(
        "
        import thread;
        class Crowd {
            public Channel<int> values; public AtomicInt left;
            public Crowd() { values = Channel<int>(2); left = AtomicInt(8); }
            public void produce() {
                for (int i = 1; i <= 40; i += 1) { values.send(i); if (i % 7 == 0) { thread.yield(); } }
                if (left.add(-1) == 0) { values.close(); }
            }
            public int consume() {
                int sum = 0;
                try { while (true) { sum += values.recv(); } } catch (ChannelClosedException e) { }
                return sum;
            }
        }
        int main() {
            Crowd crowd = Crowd();
            List<Future<int>> sums = {};
            for (int i = 0; i < 8; i += 1) { thread.spawn(crowd.produce); sums.add(thread.spawn(crowd.consume)); }
            int sum = 0;
            foreach (Future<int> one in sums) { sum += one.get(); }
            return sum;
        }",
        8 * 40 * 41 / 2,
    );
}

#[test]
fn locks_exclude_and_counters_count() {
    everywhere(
        "
        import thread;
        class Shared {
            public Mutex mutex; public Semaphore places; public AtomicInt atomic; public int plain;
            public AtomicInt inside;
            public Shared() { mutex = Mutex(); places = Semaphore(2); atomic = AtomicInt(0); inside = AtomicInt(0); }
            public void work() {
                for (int i = 0; i < 30; i += 1) {
                    mutex.lock();
                    int seen = plain;
                    if (i % 5 == 0) { thread.yield(); }
                    plain = seen + 1;
                    mutex.unlock();
                    places.acquire();
                    assert(inside.add(1) <= 2);
                    if (i % 3 == 0) { thread.yield(); }
                    inside.add(-1);
                    places.release();
                    atomic.add(1);
                    int old = atomic.get();
                    while (!atomic.compareAndSet(old, old + 1)) { old = atomic.get(); }
                }
            }
        }
        int main() {
            Shared shared = Shared();
            List<Thread> all = {};
            for (int i = 0; i < 8; i += 1) { all.add(thread.spawn(shared.work)); }
            foreach (Thread one in all) { thread.join(one); }
            return shared.plain * 1000 + shared.atomic.get();
        }",
        240 * 1000 + 480,
    );
}

#[test]
fn promises_futures_and_selects_bring_what_is_meant_for_them() {
    everywhere(
        "
        import thread;
        class Work {
            public Promise<string> promise; public Channel<int> left; public Channel<int> right; public int n;
            public Work(int n) { this.n = n; promise = Promise<string>(); left = Channel<int>(); right = Channel<int>(); }
            public void complete() { promise.complete(\"${n}\"); }
            public int get() { return promise.future().get().toInt(); }
            public void sendLeft() { for (int i = 0; i < 20; i += 1) { left.send(1); } }
            public void sendRight() { for (int i = 0; i < 20; i += 1) { right.send(100); } }
            public int select() {
                Select select = Select();
                select.recv(left); select.recv(right);
                int sum = 0;
                for (int i = 0; i < 40; i += 1) {
                    int arm = select.wait();
                    if (arm == 0) { sum += select.value(left); } else { sum += select.value(right); }
                }
                return sum;
            }
            public int fails() { throw Exception(\"${n}\"); }
        }
        int main() {
            int sum = 0;
            List<Future<int>> all = {}; List<Future<int>> failing = {};
            for (int i = 0; i < 5; i += 1) {
                Work work = Work(i);
                all.add(thread.spawn(work.get)); all.add(thread.spawn(work.get));
                all.add(thread.spawn(work.select));
                thread.spawn(work.sendLeft); thread.spawn(work.sendRight); thread.spawn(work.complete);
                failing.add(thread.spawn(work.fails));
            }
            foreach (Future<int> one in all) { sum += one.get(); }
            int i = 0;
            foreach (Future<int> one in failing) {
                try { one.get(); assert(false); } catch (Exception e) { assert(e.message == \"${i}\"); }
                i += 1;
            }
            return sum;
        }",
        5 * (20 + 2000) + 2 * 10,
    );
}

#[test]
fn a_cancelled_thread_gets_its_exception_wherever_it_is() {
    everywhere(
        "
        import thread;
        class Shared {
            public Channel<int> nothing; public AtomicInt begun; public AtomicInt ended;
            public Shared() { nothing = {}; begun = AtomicInt(0); ended = AtomicInt(0); }
            public void wait() {
                begun.add(1);
                try { nothing.recv(); } catch (CancelledException e) { ended.add(1); }
            }
            public void compute() {
                begun.add(1);
                try { while (true) { for (int i = 0; i < 100; i += 1) { } thread.sleep(1); } }
                catch (CancelledException e) { ended.add(1); }
            }
        }
        int main() {
            Shared shared = Shared();
            List<Thread> all = {};
            for (int i = 0; i < 6; i += 1) { all.add(thread.spawn(shared.wait)); all.add(thread.spawn(shared.compute)); }
            while (shared.begun.get() < 12) { thread.yield(); }
            foreach (Thread one in all) { one.cancel(); }
            foreach (Thread one in all) { thread.join(one); }
            int ended = shared.ended.get();
            // Those that have not begun never do.
            for (int i = 0; i < 20; i += 1) {
                Thread late = thread.spawn(shared.wait);
                late.cancel();
                try { thread.join(late); } catch (CancelledException e) { }
            }
            return ended;
        }",
        12,
    );
}

#[test]
fn the_end_of_main_ends_threads_that_compute_wait_and_sleep() {
    everywhere(
        "
        import thread;
        class Shared {
            public Channel<int> nothing; public AtomicInt begun;
            public Shared() { nothing = {}; begun = AtomicInt(0); }
            public void wait() { begun.add(1); nothing.recv(); }
            public void sleep() { begun.add(1); thread.sleep(1000000); }
            public void compute() { begun.add(1); while (true) { string s = \"a\" + \"b\"; for (int i = 0; i < 200; i += 1) { } } }
        }
        int main() {
            Shared shared = Shared();
            for (int i = 0; i < 4; i += 1) {
                thread.spawn(shared.wait); thread.spawn(shared.sleep); thread.spawn(shared.compute);
            }
            while (shared.begun.get() < 12) { thread.yield(); }
            for (int i = 0; i < 50; i += 1) { thread.spawn(shared.wait); }
            return 5;
        }",
        5,
    );
}

#[test]
fn what_main_gives_outlives_the_collections_of_others() {
    let source = "
        import thread;
        class Shared {
            public AtomicInt begun; public Shared() { begun = AtomicInt(0); }
            public void allocate() { begun.add(1); while (true) { List<string> l = {}; l.add(\"x\" + \"y\"); for (int i = 0; i < 100; i += 1) { } } }
        }
        List<string> make(int n) {
            Shared shared = Shared();
            for (int i = 0; i < 3; i += 1) { thread.spawn(shared.allocate); }
            while (shared.begun.get() < 3) { thread.yield(); }
            List<string> result = {};
            for (int i = 0; i < n; i += 1) { result.add(\"value ${i}\"); }
            return result;
        }
        int fail() {
            Shared shared = Shared();
            for (int i = 0; i < 3; i += 1) { thread.spawn(shared.allocate); }
            while (shared.begun.get() < 3) { thread.yield(); }
            throw Exception(\"made \" + \"of parts\");
        }";
    let mut vm = load(Vm::builder().carriers(4).gc_stress(true), source);
    for _ in 0..3 {
        let made: Vec<String> = vm.call("make", (10,)).unwrap();
        assert_eq!(made, (0..10).map(|i| format!("value {i}")).collect::<Vec<_>>());
        let Error::Script(error) = vm.call::<i32>("fail", ()).unwrap_err() else { panic!() };
        assert_eq!(error.message, "made of parts");
    }
}

#[test]
fn a_deadlock_names_the_threads_of_all_carriers() {
    let source = "
        import thread;
        native void note();
        class Shared {
            public Channel<int> nothing; public AtomicInt begun;
            public Shared() { nothing = {}; begun = AtomicInt(0); }
            public void wait() { note(); begun.add(1); while (begun.get() < 8) { } nothing.recv(); }
        }
        int main() {
            Shared shared = Shared();
            for (int i = 0; i < 8; i += 1) { thread.spawn(shared.wait); }
            shared.nothing.recv();
            return 0;
        }";
    let (note, _) = noting();
    let mut vm = load(Vm::builder().carriers(4).native("note", note), source);
    for _ in 0..5 {
        let Error::Deadlock(deadlock) = vm.run().unwrap_err() else { panic!() };
        let report = deadlock.to_string();
        for id in 0..=8 {
            assert!(report.contains(&format!("task {id}, ")), "{report}");
        }
        assert_eq!(report.matches("waits to receive from a channel").count(), 9, "{report}");
    }
}

#[test]
fn a_stop_ends_threads_on_all_carriers() {
    let source = "
        import thread;
        native void begun();
        void compute() { begun(); while (true) { } }
        int main() { for (int i = 0; i < 3; i += 1) { thread.spawn(compute); } compute(); return 0; }";
    let (began, count) = (Arc::new(AtomicUsize::new(0)), 4);
    let counted = began.clone();
    let begun = move || {
        counted.fetch_add(1, Ordering::SeqCst);
    };
    let mut vm = load(Vm::builder().carriers(4).native("begun", begun), source);
    let handle = vm.stop_handle();
    let stopper = std::thread::spawn(move || {
        while began.load(Ordering::SeqCst) < count {
            std::thread::yield_now();
        }
        handle.stop();
    });
    assert!(matches!(vm.run(), Err(Error::Stopped)));
    stopper.join().unwrap();
}

#[test]
fn a_panic_on_another_carrier_goes_on_in_the_host() {
    let source = "
        import thread;
        native void meet();
        native void broken();
        void other() { meet(); broken(); }
        int main() { Thread t = thread.spawn(other); meet(); thread.join(t); return 0; }
        int fine() { Thread t = thread.spawn(idle); thread.join(t); return 3; }
        void idle() { }";
    let both = Barrier::new(2);
    let meet = move || {
        both.wait();
    };
    let broken = || -> () { panic!("broken on purpose") };
    let builder = Vm::builder().carriers(2).native("meet", meet).native("broken", broken);
    let mut vm = load(builder, source);
    let run = std::panic::AssertUnwindSafe(|| vm.run());
    let payload = std::panic::catch_unwind(run).unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"broken on purpose"));
    assert_eq!(vm.call::<i32>("fine", ()).unwrap(), 3);
}

#[test]
fn natives_that_call_back_wait_on_their_carrier() {
    let source = "
        import thread;
        native int each(int n, func<int, int> f);
        class Work {
            public Channel<int> c; public Work() { c = {}; }
            public int receive(int n) { int seen = c.recv(); string s = \"${n}\" + \"${seen}\"; return s.length(); }
            public void send() { for (int i = 0; i < 20; i += 1) { c.send(i); } }
            public int run() { return each(20, this.receive); }
        }
        int main() {
            List<Future<int>> all = {};
            for (int i = 0; i < 6; i += 1) {
                Work work = Work();
                all.add(thread.spawn(work.run)); thread.spawn(work.send);
            }
            int sum = 0;
            foreach (Future<int> one in all) { sum += one.get(); }
            return sum;
        }";
    let each = |call: &mut pirn::vm::Call<'_>, n: i32, f: pirn::vm::Object| {
        (0..n).map(|i| call.call_value::<i32>(&f, (i,))).sum::<Result<i32, Error>>()
    };
    for stress in [false, true] {
        let builder = Vm::builder().carriers(4).gc_stress(stress).reentrant("each", each);
        assert_eq!(load(builder, source).run().unwrap(), 6 * (10 * 2 + 10 * 4));
    }
}

const MANY: &str = "
    import thread;
    native void note();
    void one() { for (int i = 0; i < 1000; i += 1) { note(); } }
    int main() {
        List<Thread> all = {};
        for (int i = 0; i < 20; i += 1) { all.add(thread.spawn(one)); }
        foreach (Thread t in all) { thread.join(t); }
        return 0;
    }";

#[test]
fn a_call_within_a_runtime_uses_the_carriers_of_that() {
    let source = "
        import thread;
        native void meet();
        void other() { meet(); }
        int main() { Thread t = thread.spawn(other); meet(); thread.join(t); return 9; }";
    let both = Barrier::new(2);
    let meet = move || {
        both.wait();
    };
    let mut vm = load(Vm::builder().carriers(2).native("meet", meet), source);
    let runtime = pirn::Builder::new().carriers(3).build().unwrap();
    let results = runtime.run(|| (0..5).map(|_| vm.run().unwrap()).collect::<Vec<_>>()).unwrap();
    assert_eq!(results, [9; 5]);
    // On a fiber that is at home on any of them.
    let runtime = pirn::Builder::new().carriers(3).build().unwrap();
    let result = runtime.run(|| pirn::thread::spawn(move || vm.run().unwrap()).join().unwrap());
    assert_eq!(result.unwrap(), 9);
}

#[test]
fn what_needs_one_carrier_has_one() {
    // Unless it is asked for; where fuel is counted; where channels come to the host.
    let limited = || Vm::builder().carriers(4).fuel(1_000_000);
    for builder in [Vm::builder(), limited()] {
        let (note, seen) = noting();
        load(builder.native("note", note), MANY).run().unwrap();
        assert_eq!(seen.lock().unwrap().len(), 1);
    }
    let (note, seen) = noting();
    let called = Arc::new(AtomicBool::new(false));
    let take = {
        let called = called.clone();
        move |_: Channel<i32>| called.store(true, Ordering::SeqCst)
    };
    let source = format!(
        "{MANY} native void take(Channel<int> c); int give() {{ take({{}}); return main(); }}"
    );
    let builder = Vm::builder().carriers(4).native("note", note).native("take", take);
    load(builder, &source).call::<i32>("give", ()).unwrap();
    assert!(called.load(Ordering::SeqCst));
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[test]
fn threads_spread_until_another_carrier_has_one() {
    // It ends only when a second OS thread has run a thread of the script.
    let source = "
        import thread;
        native int carriers();
        int busy() { int n = 0; for (int i = 0; i < 20000; i += 1) { n += i; } carriers(); return n; }
        int main() {
            while (carriers() < 2) {
                List<Future<int>> all = {};
                for (int i = 0; i < 4; i += 1) { all.add(thread.spawn(busy)); }
                foreach (Future<int> one in all) { one.get(); }
            }
            return 0;
        }";
    let builder = Vm::builder().carriers(2).native("carriers", counting());
    assert_eq!(load(builder, source).run().unwrap(), 0);
}
