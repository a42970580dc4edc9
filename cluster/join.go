package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"
)

// A node with an empty directory that finds a cluster asks its leader to be taken
// in. Told that it is welcome, it takes on the cluster's id, runs raft on nothing
// and asks again; then the leader adds it, and it learns the rest from the log.

const (
	applyAgain   = 400 * time.Millisecond
	applyTimeout = 2 * time.Second // for an answer
)

// application is what a node says that wants to be taken in.
type application struct {
	Peer
	Running bool // it has the cluster's id and runs raft
}

// reception answers an application.
type reception struct {
	Leader  raftID // who is to be asked; "": none is known
	Welcome bool   // to be one of the cluster
	Why     string // not yet a member, for people
	Warn    bool   // somebody has to do something
}

// apply asks the members that discovery knows, the leader in the end.
func (n *Node) apply(cluster string, running bool) (answer reception) {
	self := n.announcement()
	self.ClusterID, self.HasState = cluster, running
	answer.Why = "no node of the cluster answers"
	var ask []raftID
	for _, p := range n.discovery.Peers() {
		if p.ClusterID == cluster && p.raftID() != n.self {
			ask = append(ask, p.raftID())
		}
	}
	asked := make(map[raftID]bool)
	for len(ask) > 0 {
		to := ask[0]
		ask = ask[1:]
		if asked[to] {
			continue
		}
		asked[to] = true
		a, err := n.applyTo(to, cluster, application{self, running})
		switch {
		case err != nil:
			n.log.Debug("a member did not answer", "peer", to, "error", err)
			continue
		case a.Leader == to || a.Welcome:
			return a
		case a.Leader != "":
			ask = append([]raftID{a.Leader}, ask...)
		}
		answer = a
	}
	return answer
}

func (n *Node) applyTo(to raftID, cluster string, a application) (reception, error) {
	doc, err := json.Marshal(a)
	if err != nil {
		return reception{}, err
	}
	conn, err := n.dialer.dialInto(cluster, connLink, to, linkDialTimeout)
	if err != nil {
		return reception{}, err
	}
	l := newLink(to, conn)
	defer l.close()
	type reply struct {
		r   reception
		err error
	}
	done := make(chan reply, 1)
	l.ask(frameJoin, doc, func(f frame, err error) bool {
		p := reply{err: err}
		switch {
		case err != nil:
		case f.typ != frameJoinAnswer:
			p.err = errBadFrame
		default:
			p.err = json.Unmarshal(f.payload, &p.r)
		}
		done <- p
		return true
	})
	select {
	case p := <-done:
		return p.r, p.err
	case <-time.After(applyTimeout):
		return reception{}, errors.New("no answer in time")
	case <-n.stop:
		return reception{}, errNodeClosing
	}
}

// joinCluster takes the cluster's id on and runs raft on nothing. From then on
// the directory belongs to that cluster.
func (n *Node) joinCluster(cluster string) error {
	id := n.store.id
	id.ClusterID, id.Joining = cluster, true
	if err := id.save(n.cfg.DataDir); err != nil {
		return err
	}
	n.log.Info("joining the cluster", "cluster", cluster)
	n.settled.Store(false)
	n.cluster.Store(cluster)
	n.discovery.Update(n.announcement())
	return n.run(false)
}

// becomeMember asks to be added until this node finds itself in raft's
// configuration, and then notes that it has state to lose. Only after that the
// leader lets it vote.
func (n *Node) becomeMember() {
	for !n.noteMembership() {
		a := n.apply(n.clusterID(), true)
		if a.Why != "" {
			n.waitsFor("this node is not part of the cluster yet: "+a.Why, a.Warn)
		}
		select {
		case <-time.After(applyAgain):
		case <-n.stop:
			return
		}
	}
	n.log.Info("this node is part of the cluster", "cluster", n.clusterID())
}

// noteMembership waits for the entry that makes this node a member to be
// committed: a leader that goes before that leaves it behind with a member's
// directory and none.
func (n *Node) noteMembership() bool {
	if !n.agreed.committed.Load().contains(n.self) {
		return false
	}
	n.runMu.Lock()
	defer n.runMu.Unlock()
	id := n.store.id
	id.Joining, id.Bootstrapped = false, true
	if err := id.save(n.cfg.DataDir); err != nil {
		id.Joining, id.Bootstrapped = true, false
		n.log.Warn("cannot note that this node is part of the cluster; it will be tried again", "error", err)
		return false
	}
	n.settled.Store(true)
	n.waiting.Store("")
	return true
}

// members are all that are in raft's configuration.
func (n *Node) members() (ids []raftID) {
	for _, s := range n.configured() {
		ids = append(ids, raftID(s.ID))
	}
	return ids
}

// waitsFor says why this node cannot serve yet, once for each reason.
func (n *Node) waitsFor(why string, warn bool) {
	if n.waiting.Swap(why) == why || why == "" {
		return
	}
	level := slog.LevelInfo
	if warn {
		level = slog.LevelWarn
	}
	n.log.Log(context.Background(), level, why, "expect", n.cfg.Expect, "peers", len(n.discovery.Peers()))
}

// join answers a node that wants to be taken in.
func (s *server) join(f frame) error {
	var a application
	if err := json.Unmarshal(f.payload, &a); err != nil {
		return err
	}
	if a.raftID() != s.peer || !validNodeID(a.NodeID) || len(a.InstanceID) != 16 {
		return errBadFrame
	}
	if host, _, err := net.SplitHostPort(s.conn.RemoteAddr().String()); err == nil {
		a.Address = withHost(a.Address, host)
	}
	answer, err := json.Marshal(s.n.receive(a))
	if err != nil {
		return err
	}
	s.w.put(frame{frameJoinAnswer, f.id, answer})
	return nil
}

// receive decides on an application. Adding the node is left to keepMembers.
func (n *Node) receive(a application) reception {
	office := n.office.Load()
	if office == nil {
		if leader := n.leaderID(); leader != "" && leader != n.self {
			return reception{Leader: leader, Why: "the leader is being asked"}
		}
		why := n.noQuorum()
		n.refuse(a.raftID(), why)
		return reception{Why: why, Warn: true}
	}
	answer := reception{Leader: n.self}
	switch why, warn := n.objection(a.raftID(), office); {
	case slices.Contains(n.members(), a.raftID()):
		answer.Welcome = true // a founder that came late, or one that has just been added
		answer.Why = "waiting for the leader's log"
	case a.Version != protocolVersion:
		answer.Why, answer.Warn = "it speaks another version of the peer protocol than this node", true
	case why != "":
		answer.Why, answer.Warn = why, warn
		if warn {
			n.refuse(a.raftID(), why)
		}
	case !a.Running:
		answer.Welcome = true
	default:
		answer.Welcome = true
		answer.Why = "waiting to be added"
		n.discovery.Heard(a.Peer)
		n.applicants.note(a.raftID())
	}
	return answer
}

// refuse logs why a node is not taken in, now and then.
func (n *Node) refuse(id raftID, why string) {
	if n.applicants.complain(id) {
		n.log.Warn("a node that asks to be taken in is refused", "peer", id, "because", why)
	}
}

// noQuorum says why a cluster without a leader takes nobody in.
func (n *Node) noQuorum() string {
	reached, voters := []string{n.self.node()}, n.voters()
	for _, id := range voters {
		if n.mesh.link(id) != nil {
			reached = append(reached, id.node())
		}
	}
	slices.Sort(reached)
	return fmt.Sprintf("the cluster has no leader and can take nobody in: %d of its %d voters answer %v. If it stays so, start the others again "+
		"with the data directories that they had; a node whose directory was emptied does not count", len(reached), len(voters)+1, reached)
}
