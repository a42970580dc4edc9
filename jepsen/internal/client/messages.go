package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// SendRequest is one send, keyed where Key is not empty.
type SendRequest struct {
	Queue, Key, Payload string
	DelaySeconds        int
	WantHandle          bool
}

func (r SendRequest) headers() map[string]string {
	h := map[string]string{"Content-Type": "application/octet-stream"}
	if r.Key != "" {
		h["Spooler-Dedup-String"] = r.Key
	}
	if r.DelaySeconds > 0 {
		h["Spooler-Delay-Seconds"] = strconv.Itoa(r.DelaySeconds)
	}
	return h
}

// Send appends a message.
func (c *Client) Send(ctx context.Context, at Target, client int, r SendRequest) *history.Op {
	o := &history.Op{
		Client: client, Kind: history.Send, Queue: r.Queue, Key: r.Key, Payload: r.Payload,
		DelaySeconds: r.DelaySeconds,
	}
	query := url.Values{}
	if r.WantHandle {
		query.Set("handle", "true")
	}
	req := request{
		method: http.MethodPost, path: "/queues/" + r.Queue + "/send", query: query,
		header: r.headers(), body: []byte(r.Payload),
	}
	c.call(ctx, at, o, req, func(a answer) (err error) {
		o.Handle = a.header.Get("Spooler-Handle")
		o.MessageID, err = required(a.header, "Spooler-Message-Id")
		return err
	})
	return o
}

// Recv leases the oldest visible message, waiting for one up to waitSeconds.
// A good answer without a message has no MessageID.
func (c *Client) Recv(ctx context.Context, at Target, client int, queue string, waitSeconds int) *history.Op {
	o := &history.Op{Client: client, Kind: history.Recv, Queue: queue, WaitSeconds: waitSeconds}
	req := request{
		method: http.MethodPost, path: "/queues/" + queue + "/recv",
		query: url.Values{"waitSeconds": {strconv.Itoa(waitSeconds)}},
	}
	c.call(ctx, at, o, req, func(a answer) (err error) {
		if o.Status == http.StatusNoContent {
			return nil
		}
		o.Payload = string(a.body)
		if o.Lease, err = required(a.header, "Spooler-Lease"); err != nil {
			return err
		}
		if o.LeaseExpiresAt, err = instant(a.header, "Spooler-Lease-Expires-At"); err != nil {
			return err
		}
		if o.Retries, err = integer(a.header, "Spooler-Message-Retries"); err != nil {
			return err
		}
		o.MessageID, err = required(a.header, "Spooler-Message-Id")
		return err
	})
	return o
}

// Token is a lease or a handle, and the operation that issued it.
type Token struct {
	Secret    string
	Handle    bool // a handle, not a lease
	IssuedBy  int64
	MessageID string
	Queue     string
}

// LeaseOf returns the lease that a receive answered.
func LeaseOf(recv *history.Op) Token {
	return Token{Secret: recv.Lease, IssuedBy: recv.ID, MessageID: recv.MessageID, Queue: recv.Queue}
}

// HandleOf returns the handle that a send answered.
func HandleOf(send *history.Op) Token {
	return Token{Secret: send.Handle, Handle: true, IssuedBy: send.ID, MessageID: send.MessageID, Queue: send.Queue}
}

func (t Token) header(h map[string]string) map[string]string {
	if h == nil {
		h = map[string]string{}
	}
	if t.Handle {
		h["Spooler-Handle"] = t.Secret
	} else {
		h["Spooler-Lease"] = t.Secret
	}
	return h
}

func (t Token) op(client int, kind history.Kind) *history.Op {
	return &history.Op{
		Client: client, Kind: kind, Queue: t.Queue,
		TokenOp: t.IssuedBy, TokenMessage: t.MessageID, ByHandle: t.Handle,
	}
}

// SettleRequest is what to do with the message that a token names.
type SettleRequest struct {
	Kind         history.Kind // Ack, Nack, Release, Fail, Discard, Renew, Inspect or Recover
	Token        Token
	DelaySeconds int    // Release and Recover
	Expect       string // the error kind that the caller provokes on purpose
}

// Settle settles, renews, inspects or recovers.
func (c *Client) Settle(ctx context.Context, at Target, client int, r SettleRequest) *history.Op {
	o := r.Token.op(client, r.Kind)
	o.DelaySeconds, o.Expect = r.DelaySeconds, r.Expect
	var headers map[string]string
	if r.DelaySeconds > 0 {
		headers = map[string]string{"Spooler-Delay-Seconds": strconv.Itoa(r.DelaySeconds)}
	}
	req := request{method: http.MethodPost, path: "/" + string(r.Kind), header: r.Token.header(headers)}
	c.call(ctx, at, o, req, func(a answer) (err error) {
		switch r.Kind {
		case history.Renew:
			o.LeaseExpiresAt, err = instant(a.header, "Spooler-Lease-Expires-At")
		case history.Inspect:
			o.Payload, o.State = string(a.body), a.header.Get("Spooler-Message-State")
			if o.Retries, err = integer(a.header, "Spooler-Message-Retries"); err != nil {
				return err
			}
			o.MessageID, err = required(a.header, "Spooler-Message-Id")
		}
		return err
	})
	return o
}

// AckAndSend acks one message and appends another. The operation's queue is
// the target of the new message.
func (c *Client) AckAndSend(ctx context.Context, at Target, client int, lease Token, r SendRequest) *history.Op {
	o := lease.op(client, history.AckAndSend)
	o.Queue, o.Key, o.Payload, o.DelaySeconds = r.Queue, r.Key, r.Payload, r.DelaySeconds
	h := lease.header(r.headers())
	h["Spooler-Queue"] = r.Queue
	req := request{method: http.MethodPost, path: "/ack-and-send", header: h, body: []byte(r.Payload)}
	c.call(ctx, at, o, req, func(a answer) (err error) {
		if o.Status != http.StatusCreated {
			return fmt.Errorf("status %d is not one of this call", o.Status)
		}
		o.MessageID, err = required(a.header, "Spooler-Message-Id")
		return err
	})
	return o
}
