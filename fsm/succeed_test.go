package fsm_test

import (
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

// TestSuccessionWithoutDocuments keeps to what older nodes can read.
func TestSuccessionWithoutDocuments(t *testing.T) {
	r := newRig(t)
	r.m.Succeed("new", fsm.Secret{8})
	if got := r.m.Revision(); got != 0 {
		t.Errorf("revision %d", got)
	}
}

// TestSuccession: what was stored and remembered stays, and nothing that the old
// cluster gave out means anything in the new one.
func TestSuccession(t *testing.T) {
	r := newRig(t)
	r.create("q", func(s *fsm.Settings) { s.DedupWindowSeconds, s.LeaseTimeoutSeconds = 10, 0 })
	r.create("drained", nil)
	first := r.ok(keyedSend("q", "k"))
	r.ok(keyedSend("q", "other"))
	r.ok(withLease(fsm.OpFail, r.ok(recv("q"))))
	lease := r.ok(recv("q")) // never expires
	old, _ := r.m.Sealer()
	uid := r.m.Image().Read(fsm.Query{Kind: fsm.QueryQueue, Spool: fsm.DefaultSpool, Queue: "q"}).Queues[0].UID
	if got := r.states("q"); got != "1:failed/0 2:pending/0 " {
		t.Fatalf("states before: %s", got)
	}

	connector := fsm.Command{Op: fsm.OpPutDocument, Kind: fsm.ConnectorDocument, Name: "store", Payload: "{}"}
	put := r.ok(connector)

	r.m.Succeed("new", fsm.Secret{8})
	now, ok := r.m.Sealer()
	token := withLease(fsm.OpAck, lease).Token
	if _, err := now.Open(fsm.Lease, old.Seal(token)); !ok || err == nil || r.m.ClusterID() != "new" {
		t.Errorf("a token of the old cluster opens: %v, in cluster %q", err, r.m.ClusterID())
	}
	if got := r.states("q"); got != "1:failed/0 2:visible/0 " {
		t.Errorf("states after: %s", got)
	}
	r.want(fsm.CodeStaleToken, fsm.Command{Op: fsm.OpAck, Token: token})
	if got := r.want(fsm.CodeDuplicate, keyedSend("q", "k")); got.ID != first.ID {
		t.Errorf("the key is remembered for %v, was for %v", got.ID, first.ID)
	}
	if got := r.ok(keyedSend("q", "later")); got.ID.Message != 1_000_000_003 {
		t.Errorf("the next message has the id %v", got.ID)
	}
	r.create("made-since", nil)
	if got := r.ok(send("made-since", "x")); got.ID != (fsm.MessageID{Queue: 1_000_000_003, Message: 1}) {
		t.Errorf("the first message of the next queue has the id %v", got.ID)
	}
	image := r.m.Image()
	if got := image.Read(fsm.Query{Kind: fsm.QueryQueue, Spool: fsm.DefaultSpool, Queue: "q"}).Queues[0].UID; got == uid {
		t.Error("the queue has its old uid")
	}
	if got := r.ok(connector).Version; got != put.Version+1_000_000_001 {
		t.Errorf("the next version is %d, was %d", got, put.Version)
	}
	// It is saved and read like any other.
	image = r.m.Image()
	b := fsm.NewBuilder(image.Header())
	fill(t, b, image)
	m, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	query := fsm.Query{Kind: fsm.QueryQueue, Spool: fsm.DefaultSpool, Queue: "q"}
	if one, two := m.Image().Read(query).Queues[0].UID, image.Read(query).Queues[0].UID; one != two {
		t.Errorf("uid %s, saved as %s", two, one)
	}
}
