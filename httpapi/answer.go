package httpapi

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/spoolraft/spoolraft/fsm"
)

const (
	headerRequestID = "X-Request-Id"
	typeJSON        = "application/json"
	typePayload     = "application/octet-stream"
)

// timeLayout is RFC 3339 with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z"

func formatTime(ms int64) string {
	return time.UnixMilli(ms).UTC().Format(timeLayout)
}

func formatID(id fsm.MessageID) string {
	var buf [41]byte
	return string(appendID(buf[:0], id))
}

func appendID(b []byte, id fsm.MessageID) []byte {
	b = append(strconv.AppendUint(b, id.Queue, 10), '-')
	return strconv.AppendUint(b, id.Message, 10)
}

// set sets a header of the answer. The name must be in canonical form.
func (c *call) set(name, value string) {
	if c.valueCount == len(c.values) {
		c.w.Header()[name] = []string{value}
		return
	}
	i := c.valueCount
	c.values[i] = value
	c.valueCount++
	c.w.Header()[name] = c.values[i : i+1 : i+1]
}

func (c *call) setMessageID(id fsm.MessageID) {
	c.messageID = id
	c.set(headerMessageID, formatID(id))
}

// answer ends the call with a status and no body.
func (c *call) answer(status int) {
	c.wrote, c.status = true, status
	c.w.WriteHeader(status)
}

// answerBody ends the call with a body. The error says that the client can't
// have got it all.
func (c *call) answerBody(status int, contentType, body string) error {
	c.set(echo.HeaderContentType, contentType)
	c.set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	c.wrote, c.status = true, status
	c.w.WriteHeader(status)
	n, err := io.WriteString(c.w, body)
	c.bytesOut = int64(n)
	return err
}

// answerJSON ends the call with v as its body.
func (c *call) answerJSON(status int, v any) {
	_ = c.answerBody(status, typeJSON, encodeJSON(v))
}

// encodeJSON encodes one of this package's own types, which cannot fail.
func encodeJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(append(b, '\n'))
}

// errorJSON is an error as it is answered.
type errorJSON struct {
	Kind    string `json:"kind,omitempty"`
	Message string `json:"message"`
	Details any    `json:"details,omitempty"`
}

// unreadBodyTimeout is how long an answer waits for the rest of a refused
// body: long enough for bytes under way, so that the connection can be kept.
const unreadBodyTimeout = 250 * time.Millisecond

// refuse ends the call with a problem.
func (c *call) refuse(p *problem) {
	c.problem = p
	if p.status == http.StatusUnauthorized {
		c.set("Www-Authenticate", "Bearer")
	}
	if p.retryAfterSeconds > 0 {
		c.set(echo.HeaderRetryAfter, strconv.FormatInt(p.retryAfterSeconds, 10))
	}
	if p == problemNoLength || p == problemSlowBody || p == problemShortBody {
		c.set(echo.HeaderConnection, "close")
	}
	if c.r.ContentLength != c.bytesIn {
		// net/http reads the rest of a body, before the answer or after it. A
		// client that sends nothing more must hold up neither.
		_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(unreadBodyTimeout))
	}
	c.answerJSON(p.status, errorJSON{Kind: p.kind, Message: p.message, Details: p.details})
}
