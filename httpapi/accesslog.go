package httpapi

import (
	"context"
	"log/slog"
	"strconv"
	"time"
)

// statusClientGone stands in the access log for an answer that nobody was
// there to get.
const statusClientGone = 499

// logAccess writes one line about a finished call. What a client sent shows
// only where it was checked to be a name.
func (s *Server) logAccess(c *call, d time.Duration) {
	if !s.accessLog {
		return
	}
	status := c.status
	if c.outcome == outcomeClientGone {
		status = statusClientGone
	}
	var buf [16]slog.Attr
	attrs := append(buf[:0],
		slog.String("requestId", c.id),
		slog.String("method", knownMethod(c.r.Method)),
		slog.String("operation", c.op.name),
		slog.Int("status", status),
		slog.String("outcome", c.result()),
		slog.Float64("durationMs", float64(d.Microseconds())/1000),
		slog.Int64("bytesIn", c.bytesIn),
		slog.Int64("bytesOut", c.bytesOut),
	)
	if c.spool != "" {
		attrs = append(attrs, slog.String("spool", c.spool))
	}
	if c.queue != "" {
		attrs = append(attrs, slog.String("queue", c.queue))
	}
	if c.problem != nil && c.problem.kind != "" {
		attrs = append(attrs, slog.String("kind", c.problem.kind))
	}
	if c.keyLabel != "" {
		attrs = append(attrs, slog.String("key", c.keyLabel))
	}
	if c.messageID.Message != 0 {
		attrs = append(attrs, slog.String("messageId", formatID(c.messageID)))
	}
	if c.items != 0 {
		attrs = append(attrs, slog.Int("items", c.items))
	}
	s.logger.LogAttrs(context.Background(), slog.LevelInfo, "request", attrs...)
}

// knownMethod keeps invented methods out of the log.
func knownMethod(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return method
	default:
		return "other"
	}
}

// nextRequestID names a request in the log and in its answer.
func (s *Server) nextRequestID() string {
	var buf [40]byte
	b := append(buf[:0], s.requestPrefix...)
	return string(strconv.AppendUint(b, s.requestCount.Add(1), 10))
}
