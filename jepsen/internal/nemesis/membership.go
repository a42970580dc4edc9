package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spoolraft/spoolraft/jepsen/internal/deploy"
	"github.com/spoolraft/spoolraft/jepsen/internal/dice"
)

// Operations are what an operator does to a cluster: nothing is broken, but what
// is under way has to come through.
func Operations() []string { return []string{"join", "leave", "transfer", "rolling"} }

// mostExtra is how many nodes a cluster grows by.
const mostExtra = 2

// join has a further node join, or one that has joined before leave for good.
func join(ctx context.Context, e *env) (injury, error) {
	e.surgery.Lock()
	defer e.surgery.Unlock()
	g := e.cluster.(deploy.Growable)
	grown := slices.DeleteFunc(slices.Clone(e.cluster.Nodes()), func(n string) bool { return slices.Contains(e.founders, n) })
	if shrink := e.dice.Chance(0.5); len(grown) == mostExtra || len(grown) > 0 && shrink {
		return e.retire(ctx, dice.Pick(e.dice, grown), true)
	}
	node, err := g.Add()
	if err != nil {
		return injury{}, err
	}
	hurt := injury{target: node, detail: "joins"}
	return hurt, errors.Join(e.cluster.Start(node), e.awaitMember(ctx, node))
}

// leave removes a node, the leader as often as any, and has it join again with an
// empty directory.
func leave(ctx context.Context, e *env) (injury, error) {
	node, err := e.leaderOrAny(ctx)
	if err != nil {
		return injury{}, err
	}
	e.surgery.Lock()
	defer e.surgery.Unlock()
	if !e.present(node) {
		return injury{}, errNothing
	}
	hurt, err := e.retire(ctx, node, false)
	if err == nil {
		err = errors.Join(e.cluster.Start(node), e.awaitMember(ctx, node))
	}
	return hurt, err
}

// retire removes a node. That the cluster refuses it, as it has to while others are
// down, is no failure.
func (e *env) retire(ctx context.Context, node string, forGood bool) (injury, error) {
	byItself, err := e.cluster.(deploy.Growable).Retire(ctx, node, forGood)
	hurt := injury{target: node, detail: "is removed and killed"}
	switch {
	case errors.Is(err, deploy.ErrRefused):
		hurt.detail, err = "is not removed: "+err.Error(), nil
	case byItself:
		hurt.detail = "is removed and ends by itself"
	}
	return hurt, err
}

func (e *env) present(node string) bool { return slices.Contains(e.cluster.Nodes(), node) }

// awaitMember waits until a node that joins is ready. Only a run that has ended
// waits no longer.
func (e *env) awaitMember(ctx context.Context, node string) error {
	if err := e.awaitReady(ctx, readyTimeout, node); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

func transfer(ctx context.Context, e *env) (injury, error) {
	node := e.some(1)[0]
	answer, err := e.cluster.(deploy.Growable).Transfer(ctx, node)
	if err != nil { // the node that was asked went, say
		answer = err.Error()
	}
	return injury{target: node, detail: fmt.Sprintf("is to lead: %s", answer)}, nil
}
