package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// The batches of inserts, the workers and the pauses are those of River's own benchmark. With
// its default pauses, it fetches ten times a second.
const (
	batch        = 5_000
	workers      = 2_000
	cooldown     = 2 * time.Millisecond
	pollInterval = 20 * time.Millisecond
)

type noopArgs struct {
	Number int `json:"number"`
}

func (noopArgs) Kind() string { return "noop" }

type noopWorker struct {
	river.WorkerDefaults[noopArgs]
}

// The result of a job is its argument, which River stores with the job.
func (noopWorker) Work(ctx context.Context, job *river.Job[noopArgs]) error {
	return river.RecordOutput(ctx, job.Args.Number)
}

func onRiver(ctx context.Context, url string, jobs int) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	bundle := river.NewWorkers()
	river.AddWorker(bundle, noopWorker{})
	client, err := river.NewClient(driver, &river.Config{
		FetchCooldown:     cooldown,
		FetchPollInterval: pollInterval,
		Logger:            slog.New(slog.NewTextHandler(io.Discard, nil)),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		Workers:           bundle,
	})
	if err != nil {
		return err
	}
	// Completions are announced when they are stored.
	completed, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: 2 * (jobs + jobs/warmUp),
		Kinds:    []river.EventKind{river.EventKindJobCompleted},
	})
	defer unsubscribe()
	if err := client.Start(ctx); err != nil {
		return err
	}
	defer client.Stop(ctx)
	return measure(jobs, func(count int) error {
		for sent := 0; sent < count; sent += batch {
			jobs := make([]river.InsertManyParams, min(batch, count-sent))
			for index := range jobs {
				jobs[index] = river.InsertManyParams{Args: noopArgs{Number: sent + index}}
			}
			if _, err := client.InsertManyFast(ctx, jobs); err != nil {
				return err
			}
		}
		for range count {
			select {
			case <-completed:
			case <-time.After(time.Minute):
				return fmt.Errorf("a job was not completed within a minute")
			}
		}
		return nil
	})
}
