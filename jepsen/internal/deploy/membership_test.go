package deploy

import (
	"context"
	"errors"
	"slices"
	"testing"
)

func TestNodesJoinAndLeave(t *testing.T) {
	p := startStubs(t, false)
	ctx := context.Background()
	node, err := p.Add()
	must(t, err)
	must(t, p.Start(node))
	awaitAll(t, p)
	if node != "n4" || !slices.Equal(p.Nodes(), []string{"n1", "n2", "n3", "n4"}) {
		t.Errorf("%s was added to %v", node, p.Nodes())
	}
	if answer, err := p.Transfer(ctx, "n2"); answer != "200" || err != nil {
		t.Errorf("transfer: %s, %v", answer, err)
	}

	if _, err := p.Retire(ctx, "n1", false); !errors.Is(err, ErrRefused) {
		t.Errorf("a refused removal: %v", err)
	}
	if !p.Running("n1") {
		t.Error("a node that was not removed is down")
	}

	byItself, err := p.Retire(ctx, "n2", false)
	if must(t, err); !byItself || p.Running("n2") || starts(p, "n2", "flushed") != 0 {
		t.Errorf("n2 ended by itself: %v, is up: %v, keeps data of %d starts", byItself, p.Running("n2"), starts(p, "n2", "flushed"))
	}
	must(t, p.Start("n2"))
	awaitAll(t, p)

	byItself, err = p.Retire(ctx, "n4", true)
	if must(t, err); !byItself || !slices.Equal(p.Nodes(), []string{"n1", "n2", "n3"}) {
		t.Errorf("n4 ended by itself: %v, %v are left", byItself, p.Nodes())
	}
	must(t, p.Start("n4")) // somebody who has not heard yet
	if p.Running("n4") {
		t.Error("a node that has left for good was started")
	}
	if exits := p.Exits(); len(exits) > 0 {
		t.Errorf("exits that were asked for are reported: %v", exits)
	}
}

// TestARemovedNodeThatDoesNotHearIsKilled has a node paused while it is removed.
func TestARemovedNodeThatDoesNotHearIsKilled(t *testing.T) {
	p := startStubs(t, false)
	must(t, p.Pause("n2", true))
	byItself, err := p.Retire(context.Background(), "n2", false)
	if must(t, err); byItself || p.Running("n2") {
		t.Errorf("n2 ended by itself: %v, is up: %v", byItself, p.Running("n2"))
	}
	must(t, p.Start("n2"))
	awaitAll(t, p)
}
