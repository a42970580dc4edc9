package nemesis

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/deploy"
)

// maxClockJump is the furthest that a clock is moved.
const maxClockJump = 10 * time.Second

func clock(_ context.Context, e *env) (injury, error) {
	c := e.cluster.(deploy.Clocked)
	node := e.some(1)[0]
	offset := e.dice.Between(100*time.Millisecond, maxClockJump).Round(time.Millisecond)
	if e.dice.Chance(0.5) {
		offset = -offset
	}
	err := c.SetClock(node, offset)
	return injury{target: node, detail: offset.String(), heal: func(context.Context) error { return c.SetClock(node, 0) }}, err
}

// leaderOrAny picks the leader half of the time.
func (e *env) leaderOrAny(ctx context.Context) (string, error) {
	any, err := e.anyRunning()
	if e.dice.Chance(0.5) {
		if leader, err := e.leader(ctx); err == nil {
			return leader, nil
		}
	}
	return any, err
}

// onDisk does something to the disk of the leader, or of any node.
func onDisk(what func(d deploy.Disked, e *env, node string) (detail string, undo func() error, err error)) func(context.Context, *env) (injury, error) {
	return func(ctx context.Context, e *env) (injury, error) {
		node, err := e.leaderOrAny(ctx)
		if err != nil {
			return injury{}, err
		}
		detail, undo, err := what(e.cluster.(deploy.Disked), e, node)
		return injury{target: node, detail: detail, heal: func(context.Context) error { return undo() }}, err
	}
}

var diskFull = onDisk(func(d deploy.Disked, e *env, node string) (string, func() error, error) {
	left := e.dice.Int64N(256 << 10)
	return fmt.Sprintf("%d bytes left", left), func() error { return d.LeaveFree(node, -1) }, d.LeaveFree(node, left)
})

var hungFsync = onDisk(func(d deploy.Disked, _ *env, node string) (string, func() error, error) {
	return "", func() error { return d.HangSyncs(node, false) }, d.HangSyncs(node, true)
})

var brokenFsync = onDisk(func(d deploy.Disked, _ *env, node string) (string, func() error, error) {
	return "", func() error { return d.BreakSyncs(node, false) }, d.BreakSyncs(node, true)
})

func power(whom choose) func(context.Context, *env) (injury, error) {
	return func(ctx context.Context, e *env) (injury, error) {
		nodes, err := whom(ctx, e)
		if err != nil {
			return injury{}, err
		}
		// Half of the time nothing unflushed survives, else some of it.
		keep := 0.0
		if e.dice.Chance(0.5) {
			keep = e.dice.Float64()
		}
		err = e.cluster.(deploy.Disked).PowerLoss(nodes, keep, e.dice)
		detail := fmt.Sprintf("%.0f%% of what was not flushed survives", 100*keep)
		return injury{target: list(nodes), detail: detail, heal: func(context.Context) error { return e.startAll(nodes...) }}, err
	}
}

// files names the files of each kind below a data directory.
var files = map[string]*regexp.Regexp{
	"log":      regexp.MustCompile(`\.wal$|(^|/)(wal|log)[^/]*\.(db|bolt)$`),
	"vote":     regexp.MustCompile(`(^|/)(raft|stable|votes?)[^/]*\.(db|bolt)$`),
	"snapshot": regexp.MustCompile(`(^|/)snapshots?/.*/[^/]+$`),
}

// operate destroys a node's data while all others are well, and waits until
// the node is back. Nobody else operates meanwhile.
func (e *env) operate(ctx context.Context, destroy func(s deploy.Stored, node string) (string, error)) (injury, error) {
	e.surgery.Lock()
	node := e.some(1)[0]
	if err := e.awaitReady(ctx, readyTimeout, e.cluster.Nodes()...); err != nil {
		e.surgery.Unlock()
		return injury{}, errNothing
	}
	detail, err := destroy(e.cluster.(deploy.Stored), node)
	if errors.Is(err, deploy.ErrNoMatch) {
		err = errors.Join(errNothing, e.cluster.Start(node))
		e.surgery.Unlock()
		return injury{}, err
	}
	err = errors.Join(err, e.cluster.Start(node))
	heal := func(ctx context.Context) error {
		defer e.surgery.Unlock()
		return e.repair(ctx, node)
	}
	return injury{target: node, detail: detail, heal: heal}, err
}

// refusalTimeout is how long a node has that may have found its data damaged.
const refusalTimeout = 10 * time.Second

// repair does what an operator does with a node that refuses its data: it
// takes the data away and lets the node fetch them from the others.
func (e *env) repair(ctx context.Context, node string) error {
	if e.awaitReady(ctx, refusalTimeout, node) == nil {
		return nil
	}
	return errors.Join(e.cluster.(deploy.Stored).Wipe(node), e.cluster.Start(node), e.awaitReady(ctx, readyTimeout, node))
}

func bitflip(kind string) func(context.Context, *env) (injury, error) {
	return func(ctx context.Context, e *env) (injury, error) {
		return e.operate(ctx, func(s deploy.Stored, node string) (string, error) {
			return s.FlipBit(node, files[kind], e.dice)
		})
	}
}

func wipe(ctx context.Context, e *env) (injury, error) {
	return e.operate(ctx, func(s deploy.Stored, node string) (string, error) { return "", s.Wipe(node) })
}

func newAddress(_ context.Context, e *env) (injury, error) {
	node, err := e.anyRunning()
	if err != nil {
		return injury{}, err
	}
	err = e.cluster.(deploy.Movable).Move(node)
	return injury{target: node, heal: func(context.Context) error { return e.startAll(node) }}, err
}
