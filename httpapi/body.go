package httpapi

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
	"unsafe"
)

const (
	// maxJSONBytes is the longest JSON body. The contract's longest is a small
	// part of it.
	maxJSONBytes = 64 << 10
	// firstReadBytes is what is allocated on the word of a Content-Length alone.
	// Beyond it memory follows what has arrived.
	firstReadBytes = 64 << 10
)

var problemShortBody = badRequest("The body ended before its declared length")

// readBody checks the declared length and reads the body whole.
func (c *call) readBody() *problem {
	length := c.r.ContentLength
	if length < 0 {
		return problemNoLength
	}
	if length == 0 {
		return nil
	}
	switch c.op.body {
	case bodyNone:
		return badRequest("This call takes no body, and one of %d bytes was sent", length)
	case bodyJSON:
		if length > maxJSONBytes {
			return problemTooLarge("body", maxJSONBytes)
		}
	case bodyBatch:
		if length > maxBatchBytes {
			return problemTooLarge("body", maxBatchBytes)
		}
	case bodyPayload:
		if length > c.s.maxPayloadBytes {
			return problemTooLarge("payload", c.s.maxPayloadBytes)
		}
	}
	// The deadline holds for the body only: net/http takes it away at its end,
	// where it begins to watch the connection.
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(c.s.bodyTimeout))
	buf, err := readExactly(c.r.Body, int(length))
	c.bytesIn = int64(len(buf))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problemSlowBody
	case err != nil:
		return problemShortBody
	}
	c.payload = asString(buf)
	return nil
}

// asString makes a string of bytes that are never written to again.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// readExactly reads n bytes. Up to firstReadBytes it takes one allocation of
// the exact size; beyond, the memory doubles with what has come.
func readExactly(r io.Reader, n int) ([]byte, error) {
	buf := make([]byte, min(n, firstReadBytes))
	have := 0
	for {
		m, err := io.ReadFull(r, buf[have:])
		have += m
		if err != nil {
			return buf[:have], err
		}
		if have == n {
			return buf, nil
		}
		grown := make([]byte, min(n, 2*len(buf)))
		copy(grown, buf)
		buf = grown
	}
}
