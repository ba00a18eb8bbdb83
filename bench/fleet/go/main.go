// The contenders in Go of the topic `fleet`: asynq on Redis, and River on PostgreSQL. ecru-bench
// starts the server, then this program, which prints one line `metric value` for each metric.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// A tenth of the jobs come before the measured ones.
const warmUp = 10

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: ecru-bench-fleet-go CONTENDER ADDRESS JOBS")
		os.Exit(2)
	}
	jobs, err := strconv.Atoi(os.Args[3])
	if err == nil {
		switch os.Args[1] {
		case "asynq":
			err = onAsynq(os.Args[2], jobs)
		case "river":
			err = onRiver(context.Background(), os.Args[2], jobs)
		default:
			err = fmt.Errorf("there is no contender %s", os.Args[1])
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ecru-bench-fleet-go:", err)
		os.Exit(1)
	}
}

// Runs the jobs before, then the measured ones, and prints the cost of one.
func measure(jobs int, run func(int) error) error {
	if err := run(jobs / warmUp); err != nil {
		return err
	}
	begun, before := time.Now(), cpuSeconds()
	if err := run(jobs); err != nil {
		return err
	}
	wall, cpu := time.Since(begun).Seconds(), cpuSeconds()-before
	fmt.Println("time", wall*1e9/float64(jobs))
	fmt.Println("cpu", cpu*1e9/float64(jobs))
	return nil
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}
