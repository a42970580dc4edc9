package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/spoolraft/spoolraft/fsm"
)

const (
	maxMembers = 16
	joinLag    = 64 // entries that a node may be behind that is to vote

	applicationLife = 5 * time.Second // of one that is not repeated
	complainEvery   = time.Minute
	changeTimeout   = 2 * time.Second // until raft takes a change up
)

// applicants are the nodes that wait to be added, and those that were refused.
type applicants struct {
	mu      sync.Mutex
	waiting map[raftID]time.Time // since they asked last
	refused map[raftID]time.Time // since that was logged last
}

func newApplicants() *applicants {
	return &applicants{waiting: make(map[raftID]time.Time), refused: make(map[raftID]time.Time)}
}

func (a *applicants) note(id raftID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[id] = time.Now()
}

// now returns those that still ask.
func (a *applicants) now() (ids []raftID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, at := range a.waiting {
		if time.Since(at) > applicationLife {
			delete(a.waiting, id)
		} else {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// clear forgets who asked: they ask the next leader.
func (a *applicants) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.waiting)
}

// drop forgets one that was added, and must not seem to ask again now that it has
// been removed.
func (a *applicants) drop(id raftID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, id)
}

// complain reports whether it is time to log that a node is refused.
func (a *applicants) complain(id raftID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for other, at := range a.refused {
		if time.Since(at) > complainEvery {
			delete(a.refused, other)
		}
	}
	if _, lately := a.refused[id]; lately {
		return false
	}
	a.refused[id] = time.Now()
	return true
}

// memberView is what a leader knows of a server, or of a node that wants to be one.
type memberView struct {
	id       raftID
	voter    bool
	joining  bool // it is in no configuration yet
	alive    bool // it was heard of just now
	behind   bool // it is alive, and far from having the whole log
	gone     bool // it has not been heard of for a while
	caughtUp bool // it has had the whole log for a while, and noted so
}

type changeKind string

const (
	changeNone    changeKind = ""
	changeAdd     changeKind = "add"
	changeRemove  changeKind = "remove"
	changePromote changeKind = "promote"
)

type change struct {
	kind changeKind
	id   raftID
}

// nextChange is the change that brings the members one step further. Everything
// follows from raft's configuration and from who is there, so that the next
// leader goes on where one has stopped.
//
// A new node is added without a vote. When it has caught up, the node whose name
// it took over is removed, provided that it is gone and that those who are left
// and alive are a majority. Then the new one gets its vote.
func nextChange(servers []memberView) change {
	for _, s := range servers {
		if s.voter || !s.alive {
			continue
		}
		step := change{changePromote, s.id}
		if s.joining {
			step.kind = changeAdd
		}
		ready := s.joining || s.caughtUp
		for _, old := range servers {
			if old.id == s.id || old.id.node() != s.id.node() || old.joining {
				continue
			}
			switch {
			case !old.gone:
				ready = false // two living nodes with one name
			case !old.voter:
				return change{changeRemove, old.id}
			case s.joining: // it stays until there is somebody to take its place
			case !majorityWithout(servers, old.id):
				ready = false
			default:
				step = change{changeRemove, old.id}
			}
		}
		if ready {
			return step
		}
	}
	return change{}
}

// well reports whether a voter can do its part in a majority.
func (m memberView) well() bool { return m.voter && m.alive && !m.behind }

// majorityWithout reports whether a majority of the voters but one is well.
func majorityWithout(servers []memberView, without raftID) bool {
	voters, well := 0, 0
	for _, s := range servers {
		if !s.voter || s.id == without {
			continue
		}
		voters++
		if s.well() {
			well++
		}
	}
	return well > voters/2
}

// keepMembers has the leader change the configuration, one step at a time.
func (n *Node) keepMembers(stop <-chan struct{}) {
	tick := time.NewTicker(min(applyAgain, 2*n.cfg.tuning.pingInterval))
	defer tick.Stop()
	var last *leadership
	level := make(map[raftID]time.Time) // since when a node without a vote has been level with this one
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		office := n.office.Load()
		if office != last {
			clear(level)
			n.applicants.clear()
		}
		if last = office; office != nil {
			n.stepMembers(office, level)
		}
	}
}

// stepMembers takes the next step, if there is one, unless somebody else is
// changing the members.
func (n *Node) stepMembers(office *leadership, level map[raftID]time.Time) {
	select {
	case n.changing <- struct{}{}:
		defer func() { <-n.changing }()
	default:
		return
	}
	servers, index := n.survey(office, level)
	c := nextChange(servers)
	if c.kind == changeNone {
		return
	}
	n.log.Info("changing the members of the cluster", "change", c.kind, "peer", c.id)
	if err := n.changeMembers(context.Background(), c, index); err != nil {
		n.log.Warn("the members of the cluster were not changed; it will be tried again", "change", c.kind, "peer", c.id, "error", err)
	}
}

// survey is what the leader knows of the servers of the configuration with that
// index, and of those that wait to be added. level is kept from one to the next;
// without it nobody has caught up.
func (n *Node) survey(office *leadership, level map[raftID]time.Time) (servers []memberView, index uint64) {
	now := n.agreed.committed.Load()
	for _, s := range now.servers {
		id := raftID(s.ID)
		v, known := n.mesh.view(id)
		m := memberView{id: id, voter: s.Suffrage == raft.Voter, alive: n.alive(id)}
		m.behind = id != n.self && (!known || v.lag > maxLag)
		m.gone = !m.alive && n.quiet(id, office) > n.cfg.tuning.goneAfter
		if !m.voter && level != nil {
			if !known || !m.alive || !v.Settled || v.lag > joinLag {
				delete(level, id)
			} else if _, since := level[id]; !since {
				level[id] = time.Now()
			}
			since, ok := level[id]
			m.caughtUp = ok && time.Since(since) >= n.cfg.tuning.levelFor
		}
		servers = append(servers, m)
	}
	for _, id := range n.applicants.now() {
		if !slices.ContainsFunc(servers, func(m memberView) bool { return m.id == id }) {
			servers = append(servers, memberView{id: id, joining: true, alive: true})
		}
	}
	return servers, now.index
}

var errNoConfiguration = fmt.Errorf("%w: the configuration is not known yet", fsm.ErrNotApplied)

// changeMembers has raft change the configuration, provided that it still is the
// one with that index. Where ctx ends first, the change may be made all the same.
func (n *Node) changeMembers(ctx context.Context, c change, index uint64) error {
	if index == 0 {
		return errNoConfiguration // 0 would match any
	}
	r := n.raft.Load()
	id, address := raft.ServerID(c.id), raft.ServerAddress(c.id)
	var f raft.IndexFuture
	switch c.kind {
	case changeAdd:
		f = r.AddNonvoter(id, address, index, changeTimeout)
	case changeRemove:
		f = r.RemoveServer(id, index, changeTimeout)
	case changePromote:
		f = r.AddVoter(id, address, index, changeTimeout)
	}
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return translate(err)
	case <-ctx.Done():
		return translate(context.Cause(ctx))
	case <-n.stop: // raft can leave it unanswered
		return translate(raft.ErrRaftShutdown)
	}
}

// alive reports whether a node was heard of just now.
func (n *Node) alive(id raftID) bool {
	return id == n.self || (n.mesh.link(id) != nil && time.Since(n.mesh.lastHeard(id)) < n.cfg.tuning.peerTimeout)
}

// quiet is for how long nothing was heard of a member, in this leadership.
func (n *Node) quiet(id raftID, office *leadership) time.Duration {
	if id == n.self {
		return 0
	}
	return min(n.mesh.quiet(id), time.Since(office.since))
}

// objection says why a node cannot be taken in now, "" where it can, and whether
// it needs more than patience.
func (n *Node) objection(id raftID, office *leadership) (why string, warn bool) {
	members, replaces := n.members(), false
	for _, old := range members {
		if old == id || old.node() != id.node() {
			continue
		}
		switch {
		case n.alive(old):
			return fmt.Sprintf("another node of the cluster has the node id %q and is alive: give this one an id of its own", id.node()), true
		case n.quiet(old, office) <= n.cfg.tuning.goneAfter:
			return fmt.Sprintf("it takes the place of the node that had the node id %q before, once that has not been heard of for %v",
				id.node(), n.cfg.tuning.goneAfter), false
		}
		replaces = true
	}
	if len(members) >= maxMembers && !replaces {
		return fmt.Sprintf("the cluster has %d members, which is the most that it can have", len(members)), true
	}
	return "", false
}
