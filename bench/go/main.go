// The peer in Go. Each subcommand does the work of one row once and prints its metrics, one line
// `metric value` for each. GOMAXPROCS and the pinning come from the harness that starts it.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Whether sender and receiver are locked to OS threads of their own.
var apart bool

func main() {
	size := 0
	if len(os.Args) > 2 {
		size, _ = strconv.Atoi(os.Args[2])
	}
	apart = len(os.Args) > 3 && os.Args[3] == "apart"
	switch os.Args[1] {
	case "yield":
		print("time", nanosecondsPerOperation(func(operations int) { yields(size, operations) }))
	case "spawn-join":
		print("time", nanosecondsPerOperation(spawnJoin))
	case "spawn-batch":
		spawnBatch(size)
	case "create-park":
		createPark(size)
	case "parked":
		parked(size)
	case "given-back":
		givenBack(size)
	case "timer":
		timer(size)
	case "sleeps":
		sleeps(size)
	case "lone-timeout":
		loneTimeout()
	case "late-timer":
		lateTimer(size)
	case "hop":
		print("time", nanosecondsPerOperation(func(operations int) { hop(size, operations) }))
	case "hop-in-runs":
		print("time", nanosecondsPerOperation(func(operations int) { hopInRuns(size, operations) }))
	case "forward":
		print("time", nanosecondsPerOperation(func(operations int) { forward(size, operations) }))
	case "multiplex":
		print("time", nanosecondsPerOperation(func(operations int) { multiplex(size, operations) }))
	case "ping-pong":
		print("time", nanosecondsPerOperation(func(operations int) { pingPong(size, operations) }))
	case "select-ready":
		print("time", nanosecondsPerOperation(selectReady))
	case "select-producers":
		print("time", nanosecondsPerOperation(selectProducers))
	case "race":
		print("time", nanosecondsPerOperation(race))
	case "placement":
		placement(os.Args[2:])
	case "serve":
		serve(os.Args[2], os.Args[3])
	case "fan-out":
		fib(size)
		print("time", float64(timed(func() { fib(size) }).Nanoseconds())/float64(tasks(size)))
	default:
		fmt.Fprintln(os.Stderr, "unknown subcommand", os.Args[1])
		os.Exit(2)
	}
}

func print(metric string, value float64) { fmt.Println(metric, value) }

func timed(work func()) time.Duration {
	start := time.Now()
	work()
	return time.Since(start)
}

// The calibration and the window are those of the harness for the peers in Rust.
func nanosecondsPerOperation(batch func(int)) float64 {
	operations := 1
	var calibrated time.Duration
	for {
		calibrated = timed(func() { batch(operations) })
		if calibrated >= 10*time.Millisecond {
			break
		}
		operations *= 2
	}
	operations = max(1, int(float64(operations)*0.08/calibrated.Seconds()))
	return float64(timed(func() { batch(operations) }).Nanoseconds()) / float64(operations)
}

// Goroutines take turns; one operation is one yield.
func yields(tasks, operations int) {
	var all sync.WaitGroup
	for range tasks {
		all.Go(func() {
			for range operations / tasks {
				runtime.Gosched()
			}
		})
	}
	all.Wait()
}

func spawnJoin(operations int) {
	done := make(chan struct{})
	for range operations {
		go func() { done <- struct{}{} }()
		<-done
	}
}

// The second of two batches is measured, because the first one allocates the goroutines that the
// second reuses.
func spawnBatch(size int) {
	batch := func() {
		var all sync.WaitGroup
		all.Add(size)
		for range size {
			go all.Done()
		}
		all.Wait()
	}
	batch()
	print("time", float64(timed(batch).Nanoseconds())/float64(size))
}

// A gate at which goroutines wait until it is closed.
type gate struct {
	closed  chan struct{}
	waiting atomic.Int64
	left    sync.WaitGroup
}

// Starts size goroutines and returns when all wait at the gate.
func (g *gate) fill(size int) {
	g.closed = make(chan struct{})
	g.left.Add(size)
	for range size {
		go func() {
			g.waiting.Add(1)
			<-g.closed
			g.left.Done()
		}()
	}
	for g.waiting.Load() < int64(size) {
		runtime.Gosched()
	}
}

func (g *gate) open() {
	close(g.closed)
	g.left.Wait()
}

func createPark(size int) {
	var g gate
	print("time", float64(timed(func() { g.fill(size) }).Nanoseconds())/float64(size))
	g.open()
}

func parked(size int) {
	echo := func(operations int) { pingPong(1, operations) }
	print("without", nanosecondsPerOperation(echo))
	before := residentBytes()
	var g gate
	print("create", float64(timed(func() { g.fill(size) }).Nanoseconds())/float64(size))
	print("memory", (residentBytes()-before)/float64(size))
	print("mappings", mappings())
	print("with", nanosecondsPerOperation(echo))
	g.open()
}

func givenBack(size int) {
	before := residentBytes()
	var g gate
	g.fill(size)
	g.open()
	time.Sleep(5 * time.Second)
	print("growth", residentBytes()/before-1)
}

func timer(live int) {
	for range live {
		time.AfterFunc(time.Hour, func() {})
	}
	print("time", nanosecondsPerOperation(func(operations int) {
		for range operations {
			time.AfterFunc(time.Minute, func() {}).Stop()
		}
	}))
}

func sleeps(size int) {
	var all sync.WaitGroup
	all.Add(size)
	before := cpuSeconds()
	taken := timed(func() {
		for range size {
			go func() {
				time.Sleep(2 * time.Second)
				all.Done()
			}()
		}
		all.Wait()
	})
	print("over", taken.Seconds()-2)
	print("cpu", cpuSeconds()-before)
}

func loneTimeout() {
	before := cpuSeconds()
	never := make(chan struct{})
	select {
	case <-never:
	case <-time.After(time.Second):
	}
	print("cpu", cpuSeconds()-before)
}

func lateTimer(micros int) {
	const values, nap = 100_000, 5 * time.Millisecond
	channel := make(chan uint64, values)
	for value := range uint64(values) {
		channel <- value
	}
	var stop atomic.Bool
	var ended sync.WaitGroup
	ended.Add(1)
	go func() {
		defer ended.Done()
		for !stop.Load() {
			<-channel
			for begun := time.Now(); time.Since(begun) < time.Duration(micros)*time.Microsecond; {
			}
		}
	}()
	var over []float64
	for begun := time.Now(); len(over) < 5 || time.Since(begun) < time.Second; {
		slept := timed(func() { time.Sleep(nap) })
		over = append(over, float64((slept - nap).Nanoseconds()))
	}
	stop.Store(true)
	ended.Wait()
	slices.Sort(over)
	print("late", over[len(over)/2])
	print("latest", over[len(over)-1])
}

// Returns a new channel, to which a goroutine sends 0, 1, 2, …
func sendAll(capacity, count int) <-chan uint64 {
	channel := make(chan uint64, capacity)
	go func() {
		lockIfApart()
		for value := range count {
			channel <- uint64(value)
		}
	}()
	return channel
}

func lockIfApart() {
	if apart {
		runtime.LockOSThread()
	}
}

// Receives what sendAll sends.
func receiveAll(channel <-chan uint64, count int) {
	lockIfApart()
	for expected := range count {
		if <-channel != uint64(expected) {
			panic("not in the order of sending")
		}
	}
}

func hop(capacity, operations int) { receiveAll(sendAll(capacity, operations), operations) }

// Stands for a channel without a bound: no more is sent than fits in.
func hopInRuns(run, operations int) {
	for ; operations > run; operations -= run {
		hop(run, run)
	}
	hop(run, operations)
}

func forward(capacity, operations int) {
	from := sendAll(capacity, operations)
	to := make(chan uint64, capacity)
	go func() {
		for range operations {
			to <- <-from
		}
	}()
	receiveAll(to, operations)
}

// A forwarder that its users could tell to add others, or to stop, at any moment.
func multiplex(capacity, operations int) {
	from := sendAll(capacity, operations)
	to := make(chan uint64, capacity)
	told := make(chan struct{})
	go func() {
		for range operations {
			var value uint64
			select {
			case <-told:
				return
			case value = <-from:
			}
			select {
			case <-told:
				return
			case to <- value:
			}
		}
	}()
	receiveAll(to, operations)
}

func pingPong(capacity, operations int) {
	there, back := make(chan uint64, capacity), make(chan uint64, capacity)
	go func() {
		for range operations {
			back <- <-there
		}
	}()
	for value := range operations {
		there <- uint64(value)
		if <-back != uint64(value) {
			panic("not the answer")
		}
	}
}

func selectReady(operations int) {
	first, second, third := make(chan uint64, 1), make(chan uint64, 1), make(chan uint64, 1)
	channels := [3]chan uint64{first, second, third}
	for operation := range operations {
		channels[operation%3] <- uint64(operation)
		var value uint64
		select {
		case value = <-first:
		case value = <-second:
		case value = <-third:
		}
		if value != uint64(operation) {
			panic("not what was sent")
		}
	}
}

func selectProducers(operations int) {
	each := (operations + 2) / 3
	first, second, third := sendAll(1, each), sendAll(1, each), sendAll(1, each)
	sum := uint64(0)
	for range 3 * each {
		select {
		case value := <-first:
			sum += value
		case value := <-second:
			sum += value
		case value := <-third:
			sum += value
		}
	}
	if sum != 3*uint64(each*(each-1)/2) {
		panic("something was lost or came twice")
	}
}

// The losers wait for ever. The winner yields once, so that they wait by then.
func race(operations int) {
	for operation := range operations {
		running, cancel := context.WithCancel(context.Background())
		first := make(chan int, 1)
		var losers sync.WaitGroup
		for range 2 {
			losers.Go(func() { <-running.Done() })
		}
		go func() {
			runtime.Gosched()
			first <- operation
		}()
		if <-first != operation {
			panic("not the winner")
		}
		cancel()
		losers.Wait()
	}
}

// Starts a goroutine for every call on the left.
func fib(n int) int {
	if n < 2 {
		return n
	}
	left := make(chan int, 1)
	go func() { left <- fib(n - 1) }()
	right := fib(n - 2)
	return <-left + right
}

// Returns how many goroutines fib(n) starts.
func tasks(n int) int {
	if n < 2 {
		return 0
	}
	return 1 + tasks(n-1) + tasks(n-2)
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func mappings() float64 {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		panic(err)
	}
	return float64(strings.Count(string(maps), "\n"))
}

// Returns VmRSS plus VmPTE, as the harness does.
func residentBytes() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	total := 0.0
	for _, line := range strings.Split(string(status), "\n") {
		if strings.HasPrefix(line, "VmRSS:") || strings.HasPrefix(line, "VmPTE:") {
			kibibytes, err := strconv.ParseFloat(strings.Fields(line)[1], 64)
			if err != nil {
				panic(err)
			}
			total += kibibytes * 1024
		}
	}
	return total
}
