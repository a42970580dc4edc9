package channel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// process runs the workflow within the channel's limit of concurrency. The error
// is a [*Refusal].
func (ch *Channel) process(ctx context.Context, body []byte, depth int) ([]byte, error) {
	if !ch.slots.take() {
		return nil, overloaded()
	}
	defer ch.slots.give()
	for i := range ch.config.Steps {
		next, err := ch.run(ctx, &ch.config.Steps[i], body, depth)
		switch {
		case err == nil:
			body = next
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil, &Refusal{
				Status: 504, Kind: "timeout",
				Message: "the workflow took longer than the channel allows, and may have run in part; retry with the same key",
			}
		default:
			return nil, failed(&StepError{Step: i, What: err.Error()})
		}
	}
	return body, nil
}

func failed(err error) *Refusal {
	return &Refusal{Status: 502, Kind: "step_failed", Message: err.Error() + "; steps before it may have run; retry with the same key"}
}

func (ch *Channel) run(ctx context.Context, s *Step, body []byte, depth int) ([]byte, error) {
	switch {
	case s.Enqueue != nil:
		return body, ch.env.Append(ctx, Message{*s.Enqueue, body})
	case s.HTTP != nil:
		return ch.request(ctx, s.HTTP, body)
	default:
		return ch.call(ctx, s.Call, body, depth+1)
	}
}

// request sends the body. Only a 2xx is success.
func (ch *Channel) request(ctx context.Context, s *HTTPStep, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, s.Method, s.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range s.Headers {
		r.Header.Set(name, value)
	}
	answer, err := ch.env.HTTP.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return nil, fmt.Errorf("the server answered %d", answer.StatusCode)
	}
	next, err := io.ReadAll(io.LimitReader(answer.Body, MaxBodyBytes+1))
	if err == nil && len(next) > MaxBodyBytes {
		err = fmt.Errorf("the server's answer is longer than %d bytes", MaxBodyBytes)
	}
	return next, err
}

// call runs another channel. A call carries no key of its own; everything else
// that the called channel asks for holds.
func (ch *Channel) call(ctx context.Context, s *CallStep, body []byte, depth int) ([]byte, error) {
	to, ok := ch.env.Channel(s.Channel)
	switch {
	case !ok:
		return nil, fmt.Errorf("there is no channel %q", s.Channel)
	case depth > maxCallDepth:
		return nil, fmt.Errorf("channels call each other more than %d deep", maxCallDepth)
	}
	ctx, cancel := context.WithTimeout(ctx, to.config.Timeout)
	defer cancel()
	if err := errors.Join(to.limitRate(), to.checkBody(body)); err != nil {
		return nil, err
	}
	return to.process(ctx, body, depth)
}
