package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// Cluster is how a cluster is, as the server tells it.
type Cluster struct {
	ClusterID string `json:"clusterId"`
	Term      uint64 `json:"term"`
	Leader    string `json:"leader"` // "": none is known
	SeenBy    string `json:"seenBy"` // whose view it is
	Voters    int    `json:"voters"`
	Well      int    `json:"votersWell"`
	Healthy   bool   `json:"healthy"`
	MayFail   int    `json:"mayFail"`
	Nodes     []Node `json:"nodes"`
}

// Node is one of a [Cluster].
type Node struct {
	Name          string `json:"name"`
	Instance      string `json:"instance"`
	Role          string `json:"role"`
	Reachable     bool   `json:"reachable"`
	LastContactMs int64  `json:"lastContactMs"` // -1: none yet
	PeerAddress   string `json:"peerAddress"`
	APIAddress    string `json:"apiAddress"`
	GossipAddress string `json:"gossipAddress"`
	Version       string `json:"version"`
	AppliedIndex  uint64 `json:"appliedIndex"`
	LagEntries    uint64 `json:"lagEntries"`
	ClockOffsetMs int64  `json:"clockOffsetMs"`
	Diverged      bool   `json:"diverged"`
	DiskFull      bool   `json:"diskFull"`
}

// The roles of nodes that are no voters.
const (
	RoleNonVoter = "non-voter"
	RoleJoining  = "joining"
)

const clusterPath = "/v1/cluster"

// Cluster answers the [Cluster].
func (c *Client) Cluster(ctx context.Context) (json.RawMessage, error) {
	return c.raw(ctx, call{method: http.MethodGet, beside: true, path: clusterPath})
}

// RemoveNode removes a node, only the one of that instance where one is given.
func (c *Client) RemoveNode(ctx context.Context, node, instance string) error {
	q := url.Values{}
	set(q, "instance", instance)
	_, err := c.do(ctx, call{method: http.MethodDelete, beside: true, path: clusterPath + "/nodes/" + url.PathEscape(node), query: q, change: true})
	return err
}

// TransferLead moves the lead to a node, or where none is named to one that is fit
// for it. The answer names the new leader.
func (c *Client) TransferLead(ctx context.Context, to string) (json.RawMessage, error) {
	q := url.Values{}
	set(q, "to", to)
	return c.raw(ctx, call{method: http.MethodPost, beside: true, path: clusterPath + "/transfer", query: q, change: true})
}
