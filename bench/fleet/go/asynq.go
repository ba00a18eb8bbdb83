package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

const taskType = "noop"

// The most tasks that are worked on at once.
const window = 256

// The goroutines that enqueue. asynq has no way to enqueue many tasks at once.
const senders = 16

// The result of a task is its payload, and is kept for an hour.
func onAsynq(address string, jobs int) error {
	redis := asynq.RedisClientOpt{Addr: address}
	client := asynq.NewClient(redis)
	defer client.Close()
	inspector := asynq.NewInspector(redis)
	defer inspector.Close()
	server := asynq.NewServer(redis, asynq.Config{Concurrency: window, LogLevel: asynq.WarnLevel})
	work := func(_ context.Context, task *asynq.Task) error {
		_, err := task.ResultWriter().Write(task.Payload())
		return err
	}
	if err := server.Start(asynq.HandlerFunc(work)); err != nil {
		return err
	}
	defer server.Shutdown()
	stored := 0
	return measure(jobs, func(count int) error {
		stored += count
		if err := enqueue(client, count); err != nil {
			return err
		}
		for {
			queue, err := inspector.GetQueueInfo("default")
			if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
				return err
			}
			if err == nil && queue.Completed == stored {
				return nil
			}
			time.Sleep(2 * time.Millisecond)
		}
	})
}

func enqueue(client *asynq.Client, count int) error {
	var next atomic.Int64
	var all sync.WaitGroup
	failures := make(chan error, senders)
	for range senders {
		all.Go(func() {
			for next.Add(1) <= int64(count) {
				task := asynq.NewTask(taskType, []byte("1"), asynq.Retention(time.Hour))
				if _, err := client.Enqueue(task); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failures)
	return <-failures
}
