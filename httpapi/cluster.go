package httpapi

import (
	"context"
	"errors"
	"net/http"
)

// Cluster is what the calls about the cluster need of a node. The errors of its
// changes are a *[ClusterRefusal], or those of a [Broker].
type Cluster interface {
	// Overview tells how the cluster is, as the leader sees it, or where that cannot
	// be asked, as this node does.
	Overview(ctx context.Context) ClusterOverview
	// Remove takes a node out of the cluster for good, only the one of the instance
	// where one is given.
	Remove(ctx context.Context, node, instance string) error
	// Transfer hands leadership to a node, or where none is named to one that is fit
	// for it, and names the new leader.
	Transfer(ctx context.Context, to string) (leader string, err error)
	// Missing names the members of which this node has not heard for a while.
	Missing() []string
}

// ClusterRefusal is a change of the cluster that was not carried out and will not
// be. Its kind is one of the error table's, its message a full sentence.
type ClusterRefusal struct{ Kind, Node, Message string }

func (r *ClusterRefusal) Error() string { return r.Message }

// ClusterOverview is the answer to GET /v1/cluster.
type ClusterOverview struct {
	ClusterID string        `json:"clusterId,omitempty"`
	Term      uint64        `json:"term"`
	Leader    string        `json:"leader,omitempty"`
	SeenBy    string        `json:"seenBy"`
	Voters    int           `json:"voters"`
	Well      int           `json:"votersWell"`
	Healthy   bool          `json:"healthy"`
	MayFail   int           `json:"mayFail"`
	Nodes     []ClusterNode `json:"nodes"`
}

// ClusterNode is a node of a cluster. What is not known of it is absent.
type ClusterNode struct {
	Name          string `json:"name"`
	Instance      string `json:"instance"`
	Role          string `json:"role"`
	Reachable     bool   `json:"reachable"`
	LastContactMs int64  `json:"lastContactMs"` // -1: none yet

	PeerAddress   string `json:"peerAddress,omitempty"`
	APIAddress    string `json:"apiAddress,omitempty"`
	GossipAddress string `json:"gossipAddress,omitempty"`
	Version       string `json:"version,omitempty"`

	AppliedIndex  uint64 `json:"appliedIndex,omitempty"`
	CommitIndex   uint64 `json:"commitIndex,omitempty"`
	LagEntries    uint64 `json:"lagEntries"`
	ClockOffsetMs int64  `json:"clockOffsetMs"`
	StateIndex    uint64 `json:"stateIndex,omitempty"`
	StateHash     string `json:"stateHash,omitempty"`
	Diverged      bool   `json:"diverged"`
	DiskFull      bool   `json:"diskFull"`
}

type transferJSON struct {
	Leader string `json:"leader"`
}

// maxNodeBytes is the longest name of a node.
const maxNodeBytes = 64

func validNode(name string) bool {
	for i := range len(name) {
		switch b := name[i]; {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '_', b == '.', b == '-':
		default:
			return false
		}
	}
	return name != "" && len(name) <= maxNodeBytes
}

// readNode checks the name of a node in the path.
func (c *call) readNode() *problem {
	if c.s.cluster == nil {
		return problemPathNotFound
	}
	for _, name := range c.ec.ParamValues() {
		if c.node = c.unescaped(name); !validNode(c.node) {
			return badRequest("The name of the node in the path is not valid: a name has 1 to %d characters of A-Z a-z 0-9 _ . -", maxNodeBytes)
		}
	}
	return nil
}

func clusterOverview(c *call) *problem {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	c.answerJSON(http.StatusOK, c.s.cluster.Overview(ctx))
	return nil
}

// removeNode, as transferLead, is carried through where the client goes.
func removeNode(c *call) *problem {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := c.s.cluster.Remove(ctx, c.node, c.query.instance); err != nil {
		return problemOfClusterError(err)
	}
	c.answer(http.StatusNoContent)
	return nil
}

func transferLead(c *call) *problem {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	leader, err := c.s.cluster.Transfer(ctx, c.query.to)
	if err != nil {
		return problemOfClusterError(err)
	}
	c.answerJSON(http.StatusOK, transferJSON{leader})
	return nil
}

// problemOfClusterError is the answer to a change of the cluster that failed.
func problemOfClusterError(err error) *problem {
	var r *ClusterRefusal
	if errors.As(err, &r) {
		return problemOfRefusal(r)
	}
	if p := problemOfError(err); p != problemUnconfirmed {
		return p
	}
	return problemClusterUnconfirmed
}
