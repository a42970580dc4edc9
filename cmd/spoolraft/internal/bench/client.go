package bench

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"
)

// client makes calls over one connection and records them.
type client struct {
	conn
	run    *run
	shard  *shard
	number int
	queue  string // path of its queue
	sends  int    // so far, for the keys

	payload []byte
	request []byte // is made anew in place for each call
	batch   []byte // the same, of its body
}

func (r *run) newClient(number int) *client {
	c := &client{
		conn: conn{ctx: r.ctx, node: r.nodes[number%len(r.nodes)], dial: r.config.dial, timeout: r.config.Timeout},
		run:  r, shard: r.recorder.of(number), number: number,
	}
	c.queue = c.node.path + "/queues/" + r.config.Queues[number/len(r.nodes)%len(r.config.Queues)]
	c.payload = make([]byte, r.config.SizeBytes)
	random := rand.New(rand.NewPCG(r.seed, uint64(number)))
	for i := range c.payload {
		c.payload[i] = 'a' + byte(random.IntN(26))
	}
	return c
}

// post begins a request.
func (c *client) post(path, query string) {
	b := append(c.request[:0], "POST "...)
	b = append(append(b, path...), query...)
	b = append(append(b, " HTTP/1.1\r\nHost: "...), c.node.host...)
	b = append(append(b, "\r\nAuthorization: Bearer "...), c.run.config.Key...)
	c.request = append(b, "\r\n"...)
}

func (c *client) header(name, value string) {
	c.request = append(append(append(append(c.request, name...), ": "...), value...), "\r\n"...)
}

// finish ends a request with its body.
func (c *client) finish(body []byte) {
	b := append(c.request, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	c.request = append(append(b, "\r\n\r\n"...), body...)
}

// appendKey appends a key that was never used before.
func (c *client) appendKey(b []byte) []byte {
	c.sends++
	b = strconv.AppendUint(b, c.run.seed, 36)
	b = strconv.AppendInt(append(b, '-'), int64(c.number), 10)
	return strconv.AppendInt(append(b, '-'), int64(c.sends), 10)
}

// measured makes the call that was prepared, and records it as a part of an
// operation. It reports whether the answer had the status; else that is counted.
func (c *client) measured(series int, due time.Time, wait time.Duration, want int) (response, bool) {
	begun := time.Now()
	res, ok := c.try(due, wait, want)
	if c.ctx.Err() == nil {
		c.shard.latency(series, due, time.Since(begun))
	}
	return res, ok
}

// try makes the call that was prepared. What it was answered other than wanted
// is counted, unless it is the end of the run that ended it.
func (c *client) try(due time.Time, wait time.Duration, want int) (response, bool) {
	res, err := c.call(c.request, wait)
	switch {
	case err == nil && res.status == want:
		return res, true
	case c.ctx.Err() != nil:
	case err == nil:
		c.shard.failure(due, answerKind(res), 1)
	default:
		c.shard.failure(due, err.Error(), 1)
		if errors.Is(err, callError{notConnected}) {
			c.run.sleep(reconnectPause)
		}
	}
	return res, false
}

// reconnectPause keeps clients of a node that is gone from spinning.
const reconnectPause = 100 * time.Millisecond

// answerKind names an answer that was not wanted.
func answerKind(res response) string {
	var e struct {
		Kind string `json:"kind"`
	}
	_ = json.Unmarshal(res.body, &e) // a foreign server's has no kind
	return statusKind(res.status, e.Kind)
}

func statusKind(status int, kind string) string {
	if kind == "" {
		return strconv.Itoa(status)
	}
	return strconv.Itoa(status) + " " + kind
}

// prepareSend prepares a send of the payload.
func (c *client) prepareSend() {
	c.post(c.queue, "/send")
	if c.run.config.Keyed {
		c.request = append(c.request, "Spooler-Dedup-String: "...)
		c.request = append(c.appendKey(c.request), "\r\n"...)
	}
	c.finish(c.payload)
}

// operation is one turn of a client, which was due at a time.
type operation func(c *client, due time.Time)

var operations = map[Mode]operation{
	ModeSend:      (*client).send,
	ModeSendBatch: (*client).sendBatch,
	ModeCycle:     (*client).cycle,
	ModeWait:      (*client).sendStamped,
}

// ended records an operation as a whole.
func (c *client) ended(due time.Time, good bool, messages int) {
	if c.ctx.Err() != nil {
		return
	}
	c.shard.latency(0, due, time.Since(due))
	if good {
		c.shard.success(due, messages)
	}
}

func (c *client) send(due time.Time) {
	c.prepareSend()
	_, ok := c.try(due, 0, 201)
	c.ended(due, ok, 1)
}

// receiveWait is how long a receive of a cycle waits. There is a message for each.
const receiveWait = 5 * time.Second

func (c *client) cycle(due time.Time) {
	c.prepareSend()
	_, ok := c.measured(1, due, 0, 201)
	if ok {
		var got response
		c.post(c.queue, "/recv?waitSeconds="+strconv.Itoa(int(receiveWait/time.Second)))
		c.finish(nil)
		if got, ok = c.measured(2, due, receiveWait, 200); ok {
			c.prepareAck(got.lease)
			_, ok = c.measured(3, due, 0, 204)
		}
	}
	c.ended(due, ok, 1)
}

func (c *client) prepareAck(lease string) {
	c.post(c.node.path, "/ack")
	c.header("Spooler-Lease", lease)
	c.finish(nil)
}
