package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/spoolraft/spoolraft/fsm"
)

// callTimeout bounds what the Broker may take for a command or a read, and
// for a receive beyond its wait.
const callTimeout = 10 * time.Second

// call is one request on its way through the checks. It is pooled, and nothing
// may keep it after end.
type call struct {
	s     *Server
	op    *operation
	ec    echo.Context
	w     http.ResponseWriter
	r     *http.Request
	start time.Time
	id    string

	keyLabel string
	spool    string
	queue    string // from the path, or the target of an ack-and-send
	node     string // of the cluster

	sealer       fsm.Sealer
	token        fsm.Token
	delaySeconds uint32
	keyed        bool
	dedupKey     fsm.Fingerprint
	query        queryValues
	payload      string // the body, whatever its sort

	wrote     bool
	status    int
	problem   *problem
	outcome   string // of an answer without a problem
	messageID fsm.MessageID
	items     int // of a batch
	bytesIn   int64
	bytesOut  int64

	// values backs the header values of the answer: one allocation for all. It
	// outlives the call with the header, and is not pooled.
	values     *[8]string
	valueCount int
}

// serve runs one operation from the first check to the log line.
func (s *Server) serve(op *operation, ec echo.Context) error {
	c := s.calls.Get().(*call)
	*c = call{s: s, op: op, ec: ec, w: ec.Response().Writer, r: ec.Request(), start: time.Now(), id: s.nextRequestID(), outcome: outcomeOK, values: new([8]string)}
	c.set(headerRequestID, c.id)
	s.metrics.inFlight.Inc()
	defer c.end()
	if p := c.run(); p != nil {
		c.refuse(p)
	}
	return nil
}

// run makes the checks in the order of the contract, then the operation.
func (c *call) run() *problem {
	op := c.op
	if op.public || op.method == "" {
		return op.run(c)
	}
	if p := c.authorize(op.scope); p != nil {
		return p
	}
	if p := c.readSubject(); p != nil {
		return p
	}
	if p := c.readHeaders(); p != nil {
		return p
	}
	if p := c.readQuery(); p != nil {
		return p
	}
	if p := c.readBody(); p != nil {
		return p
	}
	return op.run(c)
}

// readSubject checks the names in the path, and that the spool can be used.
func (c *call) readSubject() *problem {
	if c.op.cluster {
		return c.readNode()
	}
	if p := c.readPath(); p != nil {
		return p
	}
	return problemOfCode(c.s.broker.SpoolState(c.spool), "")
}

// end recovers from a panic, counts and logs the call and gives it back.
func (c *call) end() {
	if v := recover(); v != nil {
		c.logPanic(v)
		if !c.wrote {
			// The panic may have come after the change.
			c.refuse(problemUnconfirmed)
		}
	}
	c.s.metrics.inFlight.Dec()
	duration := time.Since(c.start)
	c.s.metrics.observe(c, duration)
	c.s.logAccess(c, duration)
	s := c.s
	*c = call{}
	s.calls.Put(c)
}

// logPanic says where it happened. Of the value only a runtime error's text is
// logged, since any other could hold a part of a message.
func (c *call) logPanic(v any) {
	cause := fmt.Sprintf("%T", v)
	if err, ok := v.(runtime.Error); ok {
		cause = err.Error()
	}
	c.s.logger.Error("a handler panicked", "requestId", c.id, "operation", c.op.name, "cause", cause, "stack", string(debug.Stack()))
}

// readPath checks the names of the path. They may be percent-encoded.
func (c *call) readPath() *problem {
	names := c.ec.ParamValues()
	var p *problem
	if c.spool, p = c.readName("spool", names[0]); p != nil {
		return p
	}
	if len(names) > 1 {
		c.queue, p = c.readName("queue", names[1])
	}
	return p
}

// unescaped is a name of the path. Malformed escapes stay as they are and are no
// name.
func (c *call) unescaped(text string) string {
	if c.r.URL.RawPath != "" {
		if decoded, err := url.PathUnescape(text); err == nil {
			return decoded
		}
	}
	return text
}

func (c *call) readName(what, text string) (string, *problem) {
	text = c.unescaped(text)
	if !fsm.ValidName(text) {
		return "", badRequest("The name of the %s in the path is not valid: a name has 1 to %d characters of A-Z a-z 0-9 _ : -", what, fsm.MaxNameBytes)
	}
	return text, nil
}

// needSealer fetches the maker of tokens. It must be called before anything is
// proposed whose answer carries a token.
func (c *call) needSealer() bool {
	var ok bool
	c.sealer, ok = c.s.broker.Sealer()
	return ok
}

// do proposes a command. Its context is not the request's, which a shutdown
// ends: a change that has begun is carried through.
func (c *call) do(command *fsm.Command) (fsm.Result, *problem) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	result, err := c.s.broker.Do(ctx, command)
	if err != nil {
		return result, problemOfError(err)
	}
	return result, problemOfResult(&result, c.queue)
}

// read asks the Broker. A read that fails has changed nothing, so that every
// failure of it is a 503. Its context is not the request's, as in do.
func (c *call) read(q fsm.Query) (fsm.Answer, *problem) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	q.Spool = c.spool
	answer, err := c.s.broker.Read(ctx, q)
	if err != nil {
		return answer, problemUnreadable
	}
	return answer, problemOfCode(answer.Code, c.queue)
}
