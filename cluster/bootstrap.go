package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

const (
	maxFounders = 9 // nodes that found a cluster
	// maxSeen bounds among how many nodes the founders are looked for.
	maxSeen = 16
)

// clusterIDOf names the cluster that these nodes found. Their instance ids are
// random and made once, so no two clusters have the same name.
func clusterIDOf(founders []raftID) string {
	instances := make([]string, len(founders))
	for i, f := range founders {
		instances[i] = f.instance()
	}
	slices.Sort(instances)
	sum := sha256.Sum256([]byte(strings.Join(instances, "\n")))
	return hex.EncodeToString(sum[:16])
}

// verdict is what a node without state makes of the nodes that it sees.
type verdict struct {
	founders []raftID // found the cluster with these, where not empty
	join     string   // ask this cluster to be taken in, where not empty
	why      string   // why not yet
	warn     bool     // somebody has to do something
}

// judge decides whether self can take part in founding a cluster. Every node
// that sees the same others comes to the same founders, so nobody has to lead.
//
// A cluster that was founded without this node having noticed is recognised by
// its name: it is the name of the founders, and this node is one of them.
func judge(self Peer, others []Peer) verdict {
	ids := []raftID{self.raftID()}
	clusters := make(map[string]bool)
	for _, p := range others {
		switch {
		case p.Version != self.Version:
			return verdict{why: "node " + p.NodeID + " speaks another version of the peer protocol", warn: true}
		case p.NodeID == self.NodeID && p.ClusterID != "":
			clusters[p.ClusterID] = true // the cluster knows whether that one is still there
			continue
		case p.NodeID == self.NodeID:
			return verdict{why: "another node has this node's id: give each its own", warn: true}
		case p.HasState || p.ClusterID != "":
			clusters[p.ClusterID] = true
		case p.Expect != self.Expect:
			return verdict{why: "node " + p.NodeID + " expects another number of nodes: give all the same", warn: true}
		}
		ids = append(ids, p.raftID())
	}
	slices.Sort(ids)
	if len(clusters) > 0 {
		return join(self, ids, clusters)
	}
	switch {
	case len(ids) < self.Expect:
		return verdict{why: "waiting for more nodes"}
	case len(ids) > self.Expect:
		return verdict{why: "more nodes than expected are here: stop those that do not belong, or raise the expected number on all", warn: true}
	}
	return verdict{founders: ids}
}

func join(self Peer, ids []raftID, clusters map[string]bool) verdict {
	if len(clusters) > 1 {
		return verdict{why: "nodes of different clusters are here: give each cluster its own addresses to join", warn: true}
	}
	var found []raftID
	if len(ids) <= maxSeen {
		subsets(ids, self.Expect, func(set []raftID) bool {
			if slices.Contains(set, self.raftID()) && clusters[clusterIDOf(set)] {
				found = slices.Clone(set)
			}
			return found == nil
		})
	}
	if found != nil {
		return verdict{founders: found}
	}
	for cluster := range clusters {
		return verdict{join: cluster}
	}
	return verdict{}
}

// subsets calls yield for every subset of n of ids, until it returns false.
func subsets(ids []raftID, n int, yield func([]raftID) bool) bool {
	set := make([]raftID, 0, n)
	var pick func(from int) bool
	pick = func(from int) bool {
		if len(set) == n {
			return yield(set)
		}
		for i := from; i <= len(ids)-(n-len(set)); i++ {
			set = append(set, ids[i])
			if !pick(i + 1) {
				return false
			}
			set = set[:len(set)-1]
		}
		return true
	}
	return pick(0)
}

// foundingLook is how often a node without a cluster looks around, and how long
// a view has to last to be acted upon.
const foundingLook = 200 * time.Millisecond

// found waits for the expected nodes and founds the cluster with them, or is taken
// in by one that is there already.
func (n *Node) found() {
	var founders []raftID
	for {
		v := judge(n.announcement(), n.discovery.Peers())
		if v.join != "" {
			a := n.apply(v.join, false)
			if a.Welcome {
				if err := n.joinCluster(v.join); err != nil && err != errNodeClosing {
					n.fail(err)
				}
				return
			}
			n.waitsFor("this node is not part of the cluster that is here yet: "+a.Why, a.Warn)
		} else if v.why != "" {
			n.waitsFor("the cluster is not formed yet: "+v.why, v.warn)
		}
		if len(v.founders) > 0 && (n.cfg.Expect == 1 || slices.Equal(v.founders, founders)) {
			if err := n.foundWith(v.founders); err != nil && err != errNodeClosing {
				n.fail(err)
			}
			return
		}
		founders = v.founders
		select {
		case <-time.After(foundingLook):
		case <-n.stop:
			return
		}
	}
}

func (n *Node) foundWith(founders []raftID) error {
	id := n.store.id
	id.ClusterID, id.Founders = clusterIDOf(founders), founders
	if err := id.save(n.cfg.DataDir); err != nil {
		return err
	}
	n.log.Info("founding the cluster", "cluster", id.ClusterID, "founders", founders)
	n.waiting.Store("")
	n.cluster.Store(id.ClusterID)
	n.discovery.Update(n.announcement())
	return n.run(false)
}
