package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

func TestPreamble(t *testing.T) {
	good := preamble{version: protocolVersion, kind: connLink, cluster: "c1", from: "a/0123456789abcdef", to: "b/0123456789abcdef", address: "host:1", started: 1 << 40}
	got, err := readPreamble(bytes.NewReader(good.bytes()))
	if err != nil || got != good {
		t.Fatalf("got %+v, %v", got, err)
	}
	for n := range good.bytes() {
		if _, err := readPreamble(bytes.NewReader(good.bytes()[:n])); !errors.Is(err, errNoPreamble) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for _, tt := range []struct {
		change  func(*preamble)
		cluster string
		want    admission
	}{
		{func(*preamble) {}, "c1", admitted},
		{func(p *preamble) { p.version = 9 }, "c1", refusedVersion},
		{func(p *preamble) { p.to = "b/ffffffffffffffff" }, "c1", refusedTarget},
		{func(*preamble) {}, "c2", refusedCluster},
		{func(p *preamble) { p.cluster = "" }, "c1", refusedCluster},
		{func(*preamble) {}, "", refusedNotYet},
	} {
		p := good
		tt.change(&p)
		if got := p.admit(good.to, tt.cluster); got != tt.want || (got == admitted) != (got.err() == nil) {
			t.Errorf("%+v in %q: %d, want %d", p, tt.cluster, got, tt.want)
		}
	}
}

func FuzzPreamble(f *testing.F) {
	f.Add(preamble{protocolVersion, connRaft, "c", "a/1", "b/2", "", 0}.bytes())
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		p, err := readPreamble(r)
		if err == nil && !bytes.Equal(p.bytes(), data[:len(data)-r.Len()]) {
			t.Errorf("%x became %+v", data, p)
		}
	})
}

func TestFrames(t *testing.T) {
	for _, f := range []frame{{framePing, 1, nil}, {framePropose, 1 << 60, []byte("x")}, {frameAnswer, 2, bytes.Repeat([]byte("ab"), frameChunkBytes)}} {
		got, err := readFrame(bytes.NewReader(append(f.appendHead(nil), f.payload...)))
		if err != nil || got.typ != f.typ || got.id != f.id || !bytes.Equal(got.payload, f.payload) {
			t.Errorf("frame %d: %v", f.typ, err)
		}
	}
	huge := frame{typ: framePing}
	head := huge.appendHead(nil)
	copy(head, []byte{0xff, 0xff, 0xff, 0xff})
	if _, err := readFrame(bytes.NewReader(head)); !errors.Is(err, errBadFrame) {
		t.Errorf("a frame of 4 GiB: %v", err)
	}
	// A length that is only claimed costs no more than a chunk.
	binary.BigEndian.PutUint32(head, maxFrameBytes)
	if n := testing.AllocsPerRun(1, func() {
		if _, err := readFrame(bytes.NewReader(head)); !errors.Is(err, io.EOF) {
			t.Errorf("a frame that does not come: %v", err)
		}
	}); n > 10 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzFrame(f *testing.F) {
	for _, x := range []frame{{framePing, 1, []byte("{}")}, {frameWait, 2, appendNames(nil, "default", "q")}, {frameConfirm, 3, make([]byte, 8)}} {
		f.Add(append(x.appendHead(nil), x.payload...))
	}
	f.Add(append((&frame{frameResults, 4, appendResults(nil, 0, []fsm.Outcome{{Result: fsm.Result{Code: 1}}, {Err: errNotLeader}})}).appendHead(nil), 1))
	cmd := keyed("q", "k", "x")
	proposal := appendProposal(nil, []*item{{cmd: &cmd}, {cmd: &cmd, call: callID{number: 300}}})
	f.Add(append((&frame{framePropose, 5, proposal}).appendHead(nil), proposal...))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := readFrame(bytes.NewReader(data))
		if err != nil {
			return
		}
		// Whatever a payload claims to be, its decoder returns.
		_, _, _ = decodeResults(x.payload)
		if runs, cmds, err := decodeProposal(x.payload); err == nil && len(runs) > len(cmds) {
			t.Errorf("%d runs of %d commands", len(runs), len(cmds))
		}
		_, _ = decodeAnswer(x.payload)
		_, _, _ = decodeNames(x.payload)
		_, _ = decodeUint64(x.payload)
		_, _ = decodePeer(x.payload)
	})
}

func TestResults(t *testing.T) {
	outs := []fsm.Outcome{
		{Result: fsm.Result{Code: fsm.CodeOK, ID: fsm.MessageID{Queue: 1, Message: 2}, Payload: strings.Repeat("p", frameChunkBytes)}},
		{Err: errNotLeader}, {Err: errBusy}, {Err: unknown("x")},
		{Result: fsm.Result{Code: fsm.CodeDedupInFlight}}, {Err: fsm.ErrClosed},
	}
	got := make([]fsm.Outcome, len(outs))
	frames := 0
	splitResults(outs, func(first int, part []fsm.Outcome) {
		frames++
		from, back, err := decodeResults(appendResults(nil, first, part))
		if err != nil || from != first || len(back) != len(part) {
			t.Fatalf("part at %d: %d outcomes at %d, %v", first, len(back), from, err)
		}
		copy(got[first:], back)
	})
	if frames != 2 {
		t.Errorf("%d frames", frames)
	}
	for i := range outs {
		if !reflect.DeepEqual(got[i].Result, outs[i].Result) || (got[i].Err == nil) != (outs[i].Err == nil) {
			t.Errorf("outcome %d: %v", i, got[i].Err)
		}
	}
	if got[5].Err != errNotLeader {
		t.Errorf("a node that closes applied nothing: %v", got[5].Err)
	}
}

func TestAnswers(t *testing.T) {
	a := fsm.Answer{Code: fsm.CodeOK, AppliedIndex: 7, Payload: "\xff\x00", Queues: []fsm.QueueStats{{QueueInfo: fsm.QueueInfo{Name: "q"}}}}
	got, err := decodeAnswer(encodeAnswer(a))
	if err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := decodeAnswer(nil); err != errNotLeader {
		t.Errorf("an empty answer: %v", err)
	}
}

func TestNames(t *testing.T) {
	if s, q, err := decodeNames(appendNames(nil, "spool", "queue")); s != "spool" || q != "queue" || err != nil {
		t.Errorf("%q %q %v", s, q, err)
	}
	for _, bad := range [][]byte{nil, {1}, appendNames(nil, "a"), appendNames(nil, "a", "b", "c"), appendNames(nil, "a", "no/name"), {200, 'a'}} {
		if _, _, err := decodeNames(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestProposals(t *testing.T) {
	var items []*item
	for _, call := range []uint64{0, 0, 7, 7, 7, 300, 0} {
		cmd := keyed("q", key(len(items)), "x")
		items = append(items, &item{cmd: &cmd, call: callID{number: call}})
	}
	data := appendProposal(nil, items)
	runs, cmds, err := decodeProposal(data)
	if want := []callRun{{2, 0}, {3, 7}, {1, 300}, {1, 0}}; err != nil || !reflect.DeepEqual(runs, want) {
		t.Errorf("runs %v, %v; want %v", runs, err, want)
	}
	for i := range cmds {
		if !reflect.DeepEqual(cmds[i], *items[i].cmd) {
			t.Errorf("command %d: %+v", i, cmds[i])
		}
	}
	for end := range data {
		if _, _, err := decodeProposal(data[:end]); err == nil {
			t.Errorf("%d of %d bytes were taken", end, len(data))
		}
	}
	for what, bad := range map[string][]byte{
		"no commands":        {0, 0},
		"fewer than in runs": appendProposal([]byte{1, 0}, items),
		"more than in runs":  data[2:],
	} {
		if _, _, err := decodeProposal(bad); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
}
