// The workloads of threads.py: `threads WORKLOAD OPERATIONS`.
package main

import (
	"os"
	"runtime"
	"strconv"
	"sync"
)

func yields(n int) {
	var group sync.WaitGroup
	group.Add(2)
	for k := 0; k < 2; k++ {
		go func() {
			for i := 0; i < n/2; i++ {
				runtime.Gosched()
			}
			group.Done()
		}()
	}
	group.Wait()
}

func spawns(n int) {
	done := make(chan struct{})
	for i := 0; i < n; i++ {
		go func() { done <- struct{}{} }()
		<-done
	}
}

func messages(n int) {
	there, back := make(chan int), make(chan int)
	go func() {
		for i := 0; i < n/2; i++ {
			back <- <-there
		}
	}()
	for i := 0; i < n/2; i++ {
		there <- i
		if <-back != i {
			panic("another number came back")
		}
	}
}

func many(n int) {
	gate, sum := make(chan int), 0
	var group sync.WaitGroup
	group.Add(n)
	for i := 0; i < n; i++ {
		go func() {
			value := <-gate
			sum += value
			group.Done()
		}()
	}
	// All of them run to their receive.
	runtime.Gosched()
	for i := 0; i < n; i++ {
		gate <- 1
	}
	group.Wait()
	if sum != n {
		panic("not all were woken")
	}
}

func main() {
	runtime.GOMAXPROCS(1)
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	map[string]func(int){"yield": yields, "spawn": spawns, "message": messages, "million": many}[os.Args[1]](n)
}
