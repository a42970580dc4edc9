package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// FaultRule makes calls fail on purpose, at a server that was started with
// --faults. Zero values are left to the server.
type FaultRule struct {
	ID          string  `json:"id,omitempty"` // given by the server
	Fault       string  `json:"fault"`
	When        string  `json:"when,omitempty"`
	Operation   string  `json:"operation,omitempty"`
	Spool       string  `json:"spool,omitempty"`
	Queue       string  `json:"queue,omitempty"`
	DelayMs     int64   `json:"delayMs,omitempty"`
	Probability float64 `json:"probability,omitempty"`
	Count       uint64  `json:"count,omitempty"`
	Seed        *uint32 `json:"seed,omitempty"`

	// What it has done, told by the server.
	Matched         uint64 `json:"matched,omitempty"`
	Injected        uint64 `json:"injected,omitempty"`
	HiddenSuccesses uint64 `json:"hiddenSuccesses,omitempty"`
}

const faultsPath = "/faults"

// AddFault answers the new [FaultRule].
func (c *Client) AddFault(ctx context.Context, rule FaultRule) (json.RawMessage, error) {
	body, err := json.Marshal(rule)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return c.raw(ctx, call{method: http.MethodPost, beside: true, path: faultsPath, header: header, body: body, change: true})
}

// Faults answers a [Page] of [FaultRule].
func (c *Client) Faults(ctx context.Context) (json.RawMessage, error) {
	return c.raw(ctx, call{method: http.MethodGet, beside: true, path: faultsPath})
}

// ClearFaults removes all rules.
func (c *Client) ClearFaults(ctx context.Context) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, beside: true, path: faultsPath, change: true})
	return err
}

// ClearFault removes the rule of this id.
func (c *Client) ClearFault(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, beside: true, path: faultsPath + "/" + url.PathEscape(id), change: true})
	return err
}
