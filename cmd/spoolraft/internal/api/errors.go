package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Outcome says what a failed call did.
type Outcome int

// The outcomes.
const (
	// Failed: the call reached no server, or only asked for something to read.
	// Nothing changed.
	Failed Outcome = iota + 1
	// Refused: the server said no. The change did not happen and never will.
	Refused
	// Unknown: the change may have happened, or may yet happen.
	Unknown
)

// Error is a call that failed.
type Error struct {
	Outcome    Outcome
	Status     int    // of the answer, 0 where none came
	Kind       string // of the answer, "" where it has none
	Message    string // a sentence for people
	Details    json.RawMessage
	RetryAfter time.Duration // 0: the server did not say
}

// Error returns the message, with the kind where there is one.
func (e *Error) Error() string {
	if e.Kind == "" {
		return e.Message
	}
	return fmt.Sprintf("%s (%s)", e.Message, e.Kind)
}

// maxForeignBytes is how much of an answer that is none of the contract's, a
// proxy's page for example, goes into a message.
const maxForeignBytes = 200

// answerError turns an answer that is no success into an error.
func answerError(a *answer, change bool) *Error {
	e := &Error{Outcome: outcomeOf(a.status, change), Status: a.status, RetryAfter: retryAfter(a.header)}
	var body struct {
		Kind    string          `json:"kind"`
		Message string          `json:"message"`
		Details json.RawMessage `json:"details"`
	}
	if json.Unmarshal(a.body, &body) == nil && body.Message != "" {
		e.Kind, e.Message, e.Details = body.Kind, body.Message, body.Details
		return e
	}
	e.Message = fmt.Sprintf("The server answered %d %s.", a.status, http.StatusText(a.status))
	text := strings.Join(strings.Fields(string(a.body[:min(len(a.body), maxForeignBytes)])), " ")
	if text != "" {
		e.Message += " It said: " + strconv.Quote(text)
	}
	return e
}

// outcomeOf is what a status promises about a change.
func outcomeOf(status int, change bool) Outcome {
	switch {
	case status >= 400 && status < 500, status == http.StatusServiceUnavailable, status == http.StatusInsufficientStorage:
		return Refused
	case change:
		return Unknown
	default:
		return Failed
	}
}

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// lost is a call whose answer did not come. Where no connection was made the
// server cannot have seen it.
func lost(err error, connected, change bool) *Error {
	switch {
	case !connected:
		return &Error{Outcome: Failed, Message: fmt.Sprintf("The server could not be reached, so nothing happened: %s.", cause(err))}
	case change:
		return &Error{Outcome: Unknown, Message: fmt.Sprintf("The connection was lost before the answer came: %s.", cause(err))}
	default:
		return &Error{Outcome: Failed, Message: fmt.Sprintf("The connection was lost before the answer came: %s.", cause(err))}
	}
}
