package checker

import (
	"fmt"
	"testing"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// logged writes the same log for every node of a story: an entry for each
// payload, with what became of it. An empty payload is an entry without commands.
func (s *story) logged(entries ...[2]string) *story {
	for _, node := range s.h.Header.Nodes {
		l := &history.NodeLog{Node: node, First: 1, Last: uint64(len(entries))}
		for i, e := range entries {
			entry := history.LogEntry{Index: uint64(i + 1), Term: 1, Kind: "batch", Content: e[0], Hash: fmt.Sprintf("%016x", i)}
			if e[0] != "" {
				result := &history.LogResult{Outcome: history.LogAppended, ID: e[1]}
				if e[1] == "" {
					result.Outcome = "refused"
				}
				entry.Commands = []history.LogCommand{{Op: "send", Queue: "q", PayloadDigest: history.PayloadDigest(e[0]), Result: result}}
			}
			l.Entries = append(l.Entries, entry)
		}
		s.h.Logs = append(s.h.Logs, l)
	}
	return s
}

// cut takes the first entries off every log.
func (s *story) cut(entries int) {
	for _, l := range s.h.Logs {
		l.First, l.Entries = l.First+uint64(entries), l.Entries[entries:]
	}
}

// logStories are stories with logs, told as those of checker_test.go.
var logStories = []struct {
	name string
	tell func(*story)
	want []string
}{
	{"sent, received, in the log", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.received(30, "1-1", "a")
		s.logged([2]string{"a", "1-1"})
	}, nil},
	{"acknowledged and not in the log", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.received(30, "1-1", "a")
		s.logged([2]string{"", ""})
	}, []string{"log/not-in-log"}},
	{"acknowledged before the log begins", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.send(10, 20, "", "b", 201, "1-2")
		s.received(30, "1-1", "a")
		s.received(30, "1-2", "b")
		s.logged([2]string{"a", "1-1"}, [2]string{"b", "1-2"}).cut(1)
	}, nil},
	{"acknowledged after the log begins, and not in it", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.send(10, 20, "", "b", 201, "1-2")
		s.received(30, "1-1", "a")
		s.received(30, "1-2", "b")
		s.logged([2]string{"", ""}, [2]string{"a", "1-1"}).cut(1)
	}, []string{"log/not-in-log"}},
	{"a hit names what is not in the log", func(s *story) {
		s.send(10, 20, "k", "a", 201, "1-1")
		s.send(30, 40, "k", "b", 200, "1-1")
		s.received(50, "1-1", "a")
		s.logged([2]string{"", ""})
	}, []string{"log/not-in-log"}},
	{"in the log with another payload", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.received(30, "1-1", "a")
		s.logged([2]string{"other", "1-1"})
	}, []string{"log/other-payload-in-log"}},
	{"in the log under another id", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.send(10, 20, "", "b", 201, "1-2")
		s.received(30, "1-1", "a")
		s.received(30, "1-2", "b")
		s.logged([2]string{"b", "1-1"}, [2]string{"a", "1-2"})
	}, []string{"log/wrong-id", "log/other-payload-in-log"}},
	{"refused with 503 and in the log, though it changed nothing", func(s *story) {
		s.send(10, 20, "", "a", 503, "")
		s.logged([2]string{"a", ""})
	}, []string{"log/refused-but-in-log"}},
	{"refused by the machine", func(s *story) {
		s.send(10, 20, "", "a", 507, "")
		s.logged([2]string{"a", ""})
	}, nil},
	{"refused by the machine and appended", func(s *story) {
		s.send(10, 20, "", "a", 507, "")
		s.received(30, "1-1", "a")
		s.logged([2]string{"a", "1-1"})
	}, []string{"log/refused-but-appended", "messages/refused-but-there"}},
	{"proposed twice, the second a duplicate", func(s *story) {
		s.send(10, 20, "k", "a", 201, "1-1")
		s.received(30, "1-1", "a")
		s.logged([2]string{"a", "1-1"}, [2]string{"a", ""})
	}, []string{"log/proposed-twice"}},
	{"unknown and in the log", func(s *story) {
		s.send(10, 20, "", "a", 500, "")
		s.received(30, "1-1", "a")
		s.logged([2]string{"a", "1-1"})
	}, nil},
	{"unknown, and the log alone knows of it", func(s *story) {
		s.send(10, 20, "", "a", 500, "")
		s.logged([2]string{"a", "1-1"})
	}, []string{"log/lost"}},
	{"the logs are of two minds", func(s *story) {
		s.logged([2]string{"a", ""})
		s.h.Logs[1].Entries[0].Content = "b"
	}, []string{"log/logs-differ"}},
	{"only one node has it", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.received(30, "1-1", "a")
		s.logged([2]string{"", ""}, [2]string{"a", "1-1"})
		for _, l := range s.h.Logs[1:] {
			l.Last, l.Entries = 1, l.Entries[:1]
		}
	}, []string{"log/not-on-a-majority"}},
	{"damaged", func(s *story) {
		s.logged()
		s.h.Logs[2].Damages = []string{"log: entry 5 does not have its checksum"}
	}, []string{"log/damaged"}},
	{"damaged as the run wanted", func(s *story) {
		s.logged()
		s.h.Header.Faults = []string{"bitflip-log"}
		s.h.Logs[2].Damages = []string{"log: entry 5 does not have its checksum"}
	}, nil},
	{"a run without an end says nothing about its logs", func(s *story) {
		s.send(10, 20, "", "a", 201, "1-1")
		s.logged([2]string{"", ""})
		s.h.Phases = s.h.Phases[:1]
	}, nil},

	// Digests of states.
	{"equal digests", func(s *story) {
		s.digest("n1", 256, "aa")
		s.digest("n2", 256, "aa")
		s.digest("n1", 512, "bb")
	}, nil},
	{"two nodes differ", func(s *story) {
		s.digest("n1", 256, "aa")
		s.digest("n1", 512, "bb")
		s.digest("n2", 256, "cc")
	}, []string{"hashes/states-differ"}},
	{"a node differs from what it was", func(s *story) {
		s.digest("n1", 256, "aa")
		s.digest("n1", 256, "bb")
	}, []string{"hashes/states-differ"}},
	{"a node differs from its own log", func(s *story) {
		s.logged([2]string{"", ""}, [2]string{"", ""})
		s.digest("n1", 2, "bb")
	}, []string{"hashes/states-differ"}},
	{"replays differ", func(s *story) {
		s.logged([2]string{"", ""}, [2]string{"", ""})
		s.h.Logs[2].Entries[1].Hash = "cc"
	}, []string{"hashes/states-differ"}},
}

func (s *story) digest(node string, index uint64, hash string) {
	s.h.Digests = append(s.h.Digests, history.Digest{Node: node, Index: index, Hash: hash})
}

func TestLogStories(t *testing.T) {
	for _, st := range logStories {
		t.Run(st.name, func(t *testing.T) { judge(t, st.tell, st.want) })
	}
}
