package nemesis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spoolraft/spoolraft/jepsen/internal/deploy"
	"github.com/spoolraft/spoolraft/jepsen/internal/proxy"
)

func list(nodes []string) string { return strings.Join(nodes, ",") }

// condition sets the links, and heals by clearing them.
func (e *env) condition(c proxy.Condition, on ...proxy.Link) func(context.Context) error {
	mesh := e.cluster.(deploy.Networked).Mesh()
	for _, l := range on {
		mesh.Set(l, c)
	}
	return func(context.Context) error {
		mesh.Clear(on...)
		return nil
	}
}

// between are the links from any of the one group to any of the other.
func between(from, to []string) []proxy.Link {
	var all []proxy.Link
	for _, f := range from {
		for _, t := range to {
			if f != t {
				all = append(all, proxy.Link{From: f, To: t})
			}
		}
	}
	return all
}

func (e *env) others(group []string) []string {
	return slices.DeleteFunc(slices.Clone(e.cluster.Nodes()), func(n string) bool { return slices.Contains(group, n) })
}

func partition(_ context.Context, e *env) (injury, error) {
	group := e.some(1 + e.dice.IntN(len(e.cluster.Nodes())-1))
	if _, ok := e.cluster.(deploy.Networked); !ok {
		return e.isolate(group[0])
	}
	rest := e.others(group)
	heal := e.condition(proxy.Condition{Cut: true}, append(between(group, rest), between(rest, group)...)...)
	return injury{target: list(group), detail: "from " + list(rest), heal: heal}, nil
}

func partitionLeader(ctx context.Context, e *env) (injury, error) {
	leader, err := e.leader(ctx)
	if err != nil {
		return injury{}, err
	}
	return e.isolate(leader)
}

func (e *env) isolate(node string) (injury, error) {
	i := e.cluster.(deploy.Isolator)
	err := i.Isolate(node, true)
	return injury{target: node, detail: "from all", heal: func(context.Context) error { return i.Isolate(node, false) }}, err
}

func partitionOneWay(_ context.Context, e *env) (injury, error) {
	group := e.some(1)
	rest := e.others(group)
	from, to, detail := group, rest, "is not heard"
	if e.dice.Chance(0.5) {
		from, to, detail = rest, group, "does not hear"
	}
	heal := e.condition(proxy.Condition{Cut: true}, between(from, to)...)
	return injury{target: list(group), detail: detail, heal: heal}, nil
}

func partitionPair(_ context.Context, e *env) (injury, error) {
	pair := e.some(2)
	heal := e.condition(proxy.Condition{Cut: true}, between(pair, pair)...)
	return injury{target: list(pair), detail: "from each other", heal: heal}, nil
}

func slow(_ context.Context, e *env) (injury, error) {
	c := proxy.Condition{
		Latency: e.dice.Between(5*time.Millisecond, 150*time.Millisecond),
		Jitter:  e.dice.Between(0, 150*time.Millisecond),
	}
	nodes := e.cluster.Nodes()
	heal := e.condition(c, between(nodes, nodes)...)
	return injury{target: "all links", detail: fmt.Sprintf("latency %v, jitter %v", c.Latency, c.Jitter), heal: heal}, nil
}

func lossy(_ context.Context, e *env) (injury, error) {
	c := proxy.Condition{
		StallChance: 0.02 + 0.18*e.dice.Float64(), Stall: e.dice.Between(200*time.Millisecond, time.Second),
		ResetChance: 0.02 * e.dice.Float64(),
	}
	nodes := e.cluster.Nodes()
	heal := e.condition(c, between(nodes, nodes)...)
	detail := fmt.Sprintf("%.0f%% stall for %v, %.1f%% reset", 100*c.StallChance, c.Stall, 100*c.ResetChance)
	return injury{target: "all links", detail: detail, heal: heal}, nil
}

func dropAnswers(_ context.Context, e *env) (injury, error) {
	c := proxy.Condition{DropAnswers: 0.2 + 0.6*e.dice.Float64()}
	heal := e.condition(c, between(e.cluster.Nodes(), []string{deploy.Clients})...)
	return injury{target: "all nodes", detail: fmt.Sprintf("%.0f%% of answers", 100*c.DropAnswers), heal: heal}, nil
}
