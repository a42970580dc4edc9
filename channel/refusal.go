package channel

import (
	"fmt"
	"time"
)

// Refusal is why a delivery has no outcome. Its message is for people, and never
// holds the key. With a status below 500, 503 or 507 the workflow did not run
// and never will for this delivery; with another it may have run in part.
type Refusal struct {
	Status     int
	Kind       string
	Message    string
	RetryAfter time.Duration // 0: none
}

func (r *Refusal) Error() string { return r.Kind + ": " + r.Message }

// StepError says that a step failed.
type StepError struct {
	Step int // from 0
	What string
}

func (e *StepError) Error() string { return fmt.Sprintf("step %d: %s", e.Step, e.What) }

// passing is for how long a refusal asks to wait where nobody knows how long.
const passing = time.Second

func duplicate() *Refusal {
	return &Refusal{Status: 409, Kind: "duplicate", Message: "a delivery with this key has been processed already; this one changes nothing"}
}

func inFlight(wait time.Duration) *Refusal {
	return &Refusal{
		Status: 409, Kind: "in_flight", RetryAfter: max(wait, time.Millisecond),
		Message: "a delivery with this key is being processed; retry to learn what became of it",
	}
}

func badKey(what string) *Refusal {
	return &Refusal{Status: 400, Kind: "invalid_dedup_key", Message: "the deduplication header " + what + "; nothing was processed"}
}

func storeDown() *Refusal {
	return &Refusal{
		Status: 503, Kind: "dedup_unavailable", RetryAfter: passing,
		Message: "the store of deduplication keys can't answer; nothing was processed, retry with the same key",
	}
}

func unconfirmed() *Refusal {
	return &Refusal{
		Status: 500, Kind: "operation_unconfirmed",
		Message: "the delivery may have been processed or not; retry with the same key",
	}
}

func overloaded() *Refusal {
	return &Refusal{
		Status: 503, Kind: "overloaded", RetryAfter: passing,
		Message: "as many deliveries are being processed as the channel allows; nothing was processed, retry",
	}
}
