package server

import (
	"context"
	"errors"

	"github.com/spoolraft/spoolraft/cluster"
	"github.com/spoolraft/spoolraft/httpapi"
)

// administration is a node as the API's calls about the cluster see it.
type administration struct{ *cluster.Node }

// Overview implements httpapi.Cluster.
func (a administration) Overview(ctx context.Context) httpapi.ClusterOverview {
	o := a.Node.Overview(ctx)
	out := httpapi.ClusterOverview{
		ClusterID: o.ClusterID, Term: o.Term, Leader: o.Leader, SeenBy: o.SeenBy, Voters: o.Voters, Well: o.Well,
		Healthy: o.Healthy, MayFail: o.MayFail, Nodes: make([]httpapi.ClusterNode, len(o.Members)),
	}
	for i, m := range o.Members {
		out.Nodes[i] = httpapi.ClusterNode(m)
	}
	return out
}

// Remove implements httpapi.Cluster.
func (a administration) Remove(ctx context.Context, node, instance string) error {
	return refused(a.Node.Remove(ctx, node, instance))
}

// Transfer implements httpapi.Cluster.
func (a administration) Transfer(ctx context.Context, to string) (string, error) {
	leader, err := a.Node.Transfer(ctx, to)
	return leader, refused(err)
}

// refused turns a refusal into the API's.
func refused(err error) error {
	var r *cluster.Refusal
	if errors.As(err, &r) {
		return &httpapi.ClusterRefusal{Kind: string(r.Reason), Node: r.Node, Message: r.Text}
	}
	return err
}
