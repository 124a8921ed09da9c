// The workloads that Go takes part in; see src/workload.rs for what each is.
//
//	peer-go WORKLOAD OPERATIONS
//
// prints how many operations were done and how many nanoseconds they took.
// Goroutines share one processor, as the tasks of all contenders do.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

const (
	places  = 128
	lockers = 8
)

// A workload does about the wished number of operations and says how many, and how long they took.
type workload func(wish int) (int, time.Duration)

var workloads = map[string]workload{
	"channel/rendezvous":         pingPong,
	"channel/bounded-128-1-1":    func(wish int) (int, time.Duration) { return stream(1, wish) },
	"channel/bounded-128-4-4":    func(wish int) (int, time.Duration) { return stream(4, wish) },
	"select/4-ready":             selectReady,
	"select/4-one-becomes-ready": selectBecomesReady,
	"mutex/uncontended":          mutexUncontended,
	"mutex/8-yielding":           mutexYielding,
}

func main() {
	if len(os.Args) != 3 {
		fail("usage: peer-go WORKLOAD OPERATIONS")
	}
	run, known := workloads[os.Args[1]]
	wish, err := strconv.Atoi(os.Args[2])
	if !known || err != nil {
		fail("no such workload, or no number: " + os.Args[1] + " " + os.Args[2])
	}
	runtime.GOMAXPROCS(1)
	operations, elapsed := run(wish)
	fmt.Println(operations, elapsed.Nanoseconds())
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(2)
}

// ceil divides, and rounds up.
func ceil(number, by int) int { return (number + by - 1) / by }

func pingPong(wish int) (int, time.Duration) {
	ping, pong := make(chan uint64), make(chan uint64)
	go func() {
		for number := range ping {
			pong <- number
		}
	}()
	roundTrips := ceil(wish, 2)
	start := time.Now()
	for number := 0; number < roundTrips; number++ {
		ping <- uint64(number)
		if <-pong != uint64(number) {
			panic("another number came back")
		}
	}
	elapsed := time.Since(start)
	close(ping)
	return roundTrips * 2, elapsed
}

var sink uint64

func stream(pairs, wish int) (int, time.Duration) {
	each := ceil(wish, pairs)
	channel := make(chan uint64, places)
	var senders, receivers sync.WaitGroup
	start := time.Now()
	for pair := 0; pair < pairs; pair++ {
		senders.Add(1)
		receivers.Add(1)
		go func() {
			for number := 0; number < each; number++ {
				channel <- uint64(number)
			}
			senders.Done()
		}()
		go func() {
			for number := range channel {
				sink = number
			}
			receivers.Done()
		}()
	}
	senders.Wait()
	close(channel)
	receivers.Wait()
	return each * pairs, time.Since(start)
}

func selectReady(wish int) (int, time.Duration) {
	var channels [4]chan uint64
	for number := range channels {
		channels[number] = make(chan uint64, 1)
		channels[number] <- 0
	}
	a, b, c, d := channels[0], channels[1], channels[2], channels[3]
	start := time.Now()
	for number := 0; number < wish; number++ {
		select {
		case number := <-a:
			a <- number
		case number := <-b:
			b <- number
		case number := <-c:
			c <- number
		case number := <-d:
			d <- number
		}
	}
	return wish, time.Since(start)
}

func selectBecomesReady(wish int) (int, time.Duration) {
	var channels [4]chan uint64
	for number := range channels {
		channels[number] = make(chan uint64, 1)
	}
	a, b, c, d := channels[0], channels[1], channels[2], channels[3]
	answers := make(chan uint64, 1)
	go func() {
		for number := 0; number < wish; number++ {
			channels[number%4] <- uint64(number)
			if <-answers != uint64(number) {
				panic("another number came back")
			}
		}
	}()
	start := time.Now()
	for number := 0; number < wish; number++ {
		var got uint64
		select {
		case got = <-a:
		case got = <-b:
		case got = <-c:
		case got = <-d:
		}
		answers <- got
	}
	return wish, time.Since(start)
}

func mutexUncontended(wish int) (int, time.Duration) {
	var mutex sync.Mutex
	start := time.Now()
	for number := 0; number < wish; number++ {
		mutex.Lock()
		sink++
		mutex.Unlock()
	}
	return wish, time.Since(start)
}

func mutexYielding(wish int) (int, time.Duration) {
	each := ceil(wish, lockers)
	var mutex sync.Mutex
	var all sync.WaitGroup
	start := time.Now()
	for locker := 0; locker < lockers; locker++ {
		all.Add(1)
		go func() {
			for turn := 0; turn < each; turn++ {
				mutex.Lock()
				sink++
				runtime.Gosched()
				mutex.Unlock()
			}
			all.Done()
		}()
	}
	all.Wait()
	return each * lockers, time.Since(start)
}
