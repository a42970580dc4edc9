package bench

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"time"
)

const typeBatch = "application/vnd.spoolraft.batch"

func (c *client) sendBatch(due time.Time) {
	c.post(c.queue, "/send-batch")
	if c.run.config.JSON {
		c.header("Content-Type", "application/json")
		c.batch = c.appendJSONBatch(c.batch[:0])
	} else {
		c.header("Content-Type", typeBatch)
		c.batch = c.appendBinaryBatch(c.batch[:0])
	}
	c.finish(c.batch)
	res, ok := c.try(due, 0, 200)
	if !ok {
		c.ended(due, false, 0)
		return
	}
	stored := c.countAnswers(due, res.body)
	c.ended(due, stored == c.run.config.Batch, stored)
	if stored < c.run.config.Batch {
		c.shard.partly(due, stored)
	}
}

// appendJSONBatch relies on payloads and keys that need no escaping.
func (c *client) appendJSONBatch(b []byte) []byte {
	b = append(b, `{"items":[`...)
	for i := range c.run.config.Batch {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, `{"payload":"`...), c.payload...), '"')
		if c.run.config.Keyed {
			b = append(c.appendKey(append(b, `,"dedupString":"`...)), '"')
		}
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// appendBinaryBatch writes the encoding that docs/api.md describes.
func (c *client) appendBinaryBatch(b []byte) []byte {
	const version, sends, withKey = 1, 1, 2
	b = binary.AppendUvarint(append(b, version, sends), uint64(c.run.config.Batch))
	var buf [80]byte
	for range c.run.config.Batch {
		head := append(buf[:0], 0)
		if c.run.config.Keyed {
			head[0] = withKey
			key := c.appendKey(head[2:2])
			head = append(head[:2], key...) // keys are shorter than 128 bytes
			head[1] = byte(len(key))
		}
		b = binary.AppendUvarint(b, uint64(len(head)+len(c.payload)))
		b = append(append(b, head...), c.payload...)
	}
	return b
}

// countAnswers counts the items that were stored, and the others by kind.
func (c *client) countAnswers(due time.Time, body []byte) (stored int) {
	failed := func(status int, kind string) { c.shard.failure(due, statusKind(status, kind), 1) }
	if c.run.config.JSON {
		return countJSONAnswers(body, c.run.config.Batch, failed)
	}
	return countBinaryAnswers(body, failed)
}

var storedInJSON = []byte(`{"status":201,`)

// countJSONAnswers reads the answers only where not all items are seen to be
// stored: a quote inside of a text is escaped, so that what is looked for is no text.
func countJSONAnswers(body []byte, items int, failed func(status int, kind string)) (stored int) {
	if stored = bytes.Count(body, storedInJSON); stored == items {
		return stored
	}
	var answers struct {
		Items []struct {
			Status int    `json:"status"`
			Kind   string `json:"kind"`
		} `json:"items"`
	}
	if json.Unmarshal(body, &answers) != nil {
		failed(200, "unreadable")
		return 0
	}
	stored = 0
	for _, item := range answers.Items {
		if item.Status == 201 {
			stored++
		} else {
			failed(item.Status, item.Kind)
		}
	}
	return stored
}

func countBinaryAnswers(body []byte, failed func(status int, kind string)) (stored int) {
	const head, withError = 2, 8
	take := func() (uint64, bool) {
		v, n := binary.Uvarint(body)
		if n <= 0 {
			return 0, false
		}
		body = body[n:]
		return v, true
	}
	if len(body) < head || body[0] != 1 || body[1] != 3 {
		failed(200, "unreadable")
		return 0
	}
	body = body[head:]
	count, ok := take()
	if !ok {
		failed(200, "unreadable")
	}
	for range count {
		size, ok := take()
		if !ok || size > uint64(len(body)) {
			failed(200, "unreadable")
			return stored
		}
		next := body[size:]
		body = body[:size]
		status, _ := take()
		switch {
		case status == 201:
			stored++
		case len(body) > 0 && body[0] == withError:
			body = body[1:]
			_, _ = take() // when to retry
			length, _ := take()
			failed(int(status), string(body[:min(length, uint64(len(body)))]))
		default:
			failed(int(status), "")
		}
		body = next
	}
	return stored
}

// appendStamp and readStamp are when a message was due, in nanoseconds since the
// run began, and whose it is.
const stampBytes = 40

func appendStamp(b []byte, seed uint64, since time.Duration) []byte {
	start := len(b)
	b = strconv.AppendUint(b, seed, 36)
	b = strconv.AppendInt(append(b, ' '), int64(since), 10)
	for len(b)-start < stampBytes {
		b = append(b, ' ')
	}
	return b
}

func readStamp(payload []byte, seed uint64) (time.Duration, bool) {
	if len(payload) < stampBytes {
		return 0, false
	}
	fields := bytes.Fields(payload[:stampBytes])
	if len(fields) != 2 {
		return 0, false
	}
	whose, err := strconv.ParseUint(string(fields[0]), 36, 64)
	since, err2 := strconv.ParseInt(string(fields[1]), 10, 64)
	return time.Duration(since), err == nil && err2 == nil && whose == seed
}
