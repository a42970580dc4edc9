package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// raftLogger gives raft and its stores a logger that ends in ours.
func raftLogger(l *slog.Logger) hclog.Logger {
	h := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Output: io.Discard, Level: hclog.Off})
	h.RegisterSink(&slogSink{l})
	return h
}

type slogSink struct{ log *slog.Logger }

// repeated are messages that raft logs as errors several times a second while a
// peer is down. That a peer went away and came back is logged elsewhere, once.
var repeated = map[string]bool{
	"failed to heartbeat to":                            true,
	"failed to appendEntries to":                        true,
	"failed to make requestVote RPC":                    true,
	"failed to contact":                                 true,
	"failed to decode incoming command":                 true,
	"failed to flush response":                          true,
	"Election timeout reached, restarting election":     true,
	"rejecting vote request since we have a leader":     true,
	"rejecting pre-vote request since we have a leader": true,
}

// Accept implements hclog.SinkAdapter.
func (s *slogSink) Accept(name string, level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	switch {
	case repeated[msg]:
	case level >= hclog.Error:
		to = slog.LevelError
	case level == hclog.Warn:
		to = slog.LevelWarn
	case level == hclog.Info:
		to = slog.LevelInfo
	}
	ctx := context.Background()
	if !s.log.Enabled(ctx, to) {
		return
	}
	attrs := make([]any, 0, len(args)+2)
	attrs = append(attrs, "from", name)
	for _, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			a = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
		attrs = append(attrs, a)
	}
	s.log.Log(ctx, to, msg, attrs...)
}

// gossipLogger gives memberlist a logger that ends in ours. A node that gossip
// misses costs no more than a line, and bytes that are not gossip only one at
// the lowest level, since anybody can send them.
func gossipLogger(l *slog.Logger) *log.Logger { return log.New(gossipWriter{l}, "", 0) }

type gossipWriter struct{ log *slog.Logger }

func (w gossipWriter) Write(line []byte) (int, error) {
	level, msg := slog.LevelDebug, bytes.TrimSpace(line)
	for prefix, as := range map[string]slog.Level{"[INFO] ": slog.LevelInfo, "[WARN] ": slog.LevelInfo, "[ERR] ": slog.LevelDebug, "[DEBUG] ": slog.LevelDebug} {
		if rest, ok := bytes.CutPrefix(msg, []byte(prefix)); ok {
			level, msg = as, rest
			break
		}
	}
	w.log.Log(context.Background(), level, string(msg), "from", "gossip")
	return len(line), nil
}
