package bench

import (
	"strconv"
	"time"
)

// sendStamped sends a message that carries when it was due.
func (c *client) sendStamped(due time.Time) {
	appendStamp(c.payload[:0], c.run.seed, due.Sub(c.run.start))
	c.prepareSend()
	if _, ok := c.measured(1, due, 0, 201); ok {
		c.run.sent.Add(1)
	}
}

// receiverWait is how long one receive waits.
const receiverWait = 20 * time.Second

// receive waits for messages, one after the other, until the run ends.
func (c *client) receive() {
	for c.ctx.Err() == nil {
		c.post(c.queue, "/recv?waitSeconds="+strconv.Itoa(int(receiverWait/time.Second)))
		c.finish(nil)
		res, err := c.call(c.request, receiverWait)
		now := time.Now()
		switch {
		case c.ctx.Err() != nil || err == nil && res.status == 204:
			continue
		case err != nil || res.status != 200:
			c.receiveFailed(now, res, err)
			continue
		}
		since, ours := readStamp(res.body, c.run.seed)
		c.prepareAck(res.lease)
		if ours {
			due := c.run.start.Add(since)
			c.shard.latency(0, due, now.Sub(due))
			c.shard.success(due, 1)
		}
		if _, ok := c.measured(2, now, 0, 204); ok && ours {
			c.run.received.Add(1)
		}
	}
}

func (c *client) receiveFailed(now time.Time, res response, err error) {
	kind := ""
	if err != nil {
		kind = err.Error()
	} else {
		kind = answerKind(res)
	}
	c.shard.failure(now, "receive: "+kind, 1)
	c.run.sleep(reconnectPause)
}
