package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// pageSize is the largest page that a listing answers.
const pageSize = 1000

// maxPages bounds one recorded listing.
const maxPages = 200

// queueBody is the part of a queue's JSON that the harness reads.
type queueBody struct {
	UID      string            `json:"uid"`
	State    string            `json:"state"`
	Settings *history.Settings `json:"settings"`
}

func (c *Client) queueCall(ctx context.Context, at Target, o *history.Op, method string, query url.Values) {
	req := request{method: method, path: "/queues/" + o.Queue, query: query}
	if o.Settings != nil {
		req.body, _ = json.Marshal(o.Settings) // a struct of pointers to integers always encodes
		req.header = map[string]string{"Content-Type": "application/json"}
	}
	c.call(ctx, at, o, req, func(a answer) error {
		var q queueBody
		if method == http.MethodDelete {
			return nil
		}
		if err := json.Unmarshal(a.body, &q); err != nil {
			return err
		}
		o.QueueUID, o.State, o.Settings = q.UID, q.State, q.Settings
		return nil
	})
}

// CreateQueue makes a queue.
func (c *Client) CreateQueue(ctx context.Context, at Target, client int, queue string, s history.Settings) *history.Op {
	o := &history.Op{Client: client, Kind: history.QueueCreate, Queue: queue, Settings: &s}
	c.queueCall(ctx, at, o, http.MethodPut, nil)
	return o
}

// UpdateQueue changes settings.
func (c *Client) UpdateQueue(ctx context.Context, at Target, client int, queue string, s history.Settings) *history.Op {
	o := &history.Op{Client: client, Kind: history.QueueUpdate, Queue: queue, Settings: &s}
	c.queueCall(ctx, at, o, http.MethodPatch, nil)
	return o
}

// GetQueue reads a queue.
func (c *Client) GetQueue(ctx context.Context, at Target, client int, queue string) *history.Op {
	o := &history.Op{Client: client, Kind: history.QueueGet, Queue: queue}
	c.queueCall(ctx, at, o, http.MethodGet, nil)
	return o
}

// DeleteQueue removes a queue, only the one with the uid where one is given.
func (c *Client) DeleteQueue(ctx context.Context, at Target, client int, queue, mode, uid string) *history.Op {
	o := &history.Op{Client: client, Kind: history.QueueDelete, Queue: queue, DeleteMode: mode, QueueUID: uid}
	query := url.Values{"mode": {mode}}
	if uid != "" {
		query.Set("uid", uid)
	}
	c.queueCall(ctx, at, o, http.MethodDelete, query)
	return o
}

func consistency(stale bool) url.Values {
	if stale {
		return url.Values{"consistency": {"stale"}}
	}
	return url.Values{}
}

func appliedIndex(h http.Header) (uint64, error) {
	if s := h.Get("Spooler-Applied-Index"); s != "" {
		return strconv.ParseUint(s, 10, 64)
	}
	return 0, nil
}

// Stats reads the counts of one queue.
func (c *Client) Stats(ctx context.Context, at Target, client int, queue string, stale bool) *history.Op {
	o := &history.Op{Client: client, Kind: history.ReadStats, Queue: queue, StaleRead: stale}
	query := consistency(stale)
	query.Set("queue", queue)
	req := request{method: http.MethodGet, path: "/stats", query: query}
	c.call(ctx, at, o, req, func(a answer) (err error) {
		var body struct {
			Queues struct {
				Items []struct {
					queueBody
					Stats *history.Stats `json:"stats"`
				} `json:"items"`
			} `json:"queues"`
		}
		if err := json.Unmarshal(a.body, &body); err != nil {
			return err
		}
		if len(body.Queues.Items) == 1 {
			o.Stats, o.QueueUID = body.Queues.Items[0].Stats, body.Queues.Items[0].UID
		}
		o.AppliedIndex, err = appliedIndex(a.header)
		return err
	})
	return o
}

// Messages lists a whole queue, page by page. Only a listing that fits one
// page is a picture of one moment. Handles are asked for on request.
func (c *Client) Messages(ctx context.Context, at Target, client int, queue, state string, handles, stale bool) []*history.Op {
	var ops []*history.Op
	after := ""
	for range maxPages {
		o, next := c.page(ctx, at, client, queue, state, after, handles, stale)
		ops = append(ops, o)
		if next == "" || o.Outcome != history.OK {
			break
		}
		after = next
	}
	return ops
}

func (c *Client) page(ctx context.Context, at Target, client int, queue, state, after string, handles, stale bool) (o *history.Op, next string) {
	o = &history.Op{Client: client, Kind: history.ReadItems, Queue: queue, State: state, StaleRead: stale}
	query := consistency(stale)
	query.Set("limit", strconv.Itoa(pageSize))
	if after != "" {
		query.Set("after", after)
	}
	if state != "" {
		query.Set("state", state)
	}
	if handles {
		query.Set("handle", "true")
	}
	req := request{method: http.MethodGet, path: "/queues/" + queue + "/messages", query: query}
	c.call(ctx, at, o, req, func(a answer) (err error) {
		var body struct {
			Items []struct {
				history.Item
				Handle string `json:"handle"`
			} `json:"items"`
			Next string `json:"next"`
		}
		if err := json.Unmarshal(a.body, &body); err != nil {
			return err
		}
		for _, it := range body.Items {
			it.Item.Handle = it.Handle
			o.Items = append(o.Items, it.Item)
		}
		next = body.Next
		o.AppliedIndex, err = appliedIndex(a.header)
		return err
	})
	return o, next
}
