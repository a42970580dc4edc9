package checker

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

// place is a command in the log.
type place struct {
	index   uint64
	command *history.LogCommand
}

// appended is the id of the message that it appended, "" where it did not, or
// where nobody knows.
func (p place) appended() string {
	if r := p.command.Result; r != nil && r.Outcome == history.LogAppended {
		return r.ID
	}
	return ""
}

// logs are the nodes' logs, sorted by what is looked for.
type logs struct {
	entries   map[uint64]*history.LogEntry
	byPayload map[string][]place // by its digest
	appends   map[string]place   // by message id
	oldest    map[string]int     // the lowest message number by queue number, where results are known
	whole     bool               // nothing is missing at the beginning
}

// checkLog holds what clients were told against the logs that the nodes left.
// It is a cross-check: the log is the server's word, as are the answers, and
// both have to be the same.
func checkLog(x *index, r *report) {
	switch {
	case len(x.h.Logs) == 0:
		r.Note = "no log was read"
		return
	case !x.drained:
		r.Note = "not compared: the run did not come to its end, so that a log may hold what was never agreed on"
		return
	}
	checkDamage(x, r)
	l := x.mergeLogs(r)
	unknown, landed := 0, 0
	for _, o := range x.h.Ops {
		if o.MessageID != "" {
			x.checkLogged(r, l, o)
		}
		if a := x.attempts[o.Payload]; a == nil || a.op != o {
			continue
		}
		r.Checked++
		places := l.byPayload[history.PayloadDigest(o.Payload)]
		x.checkPlaces(r, o, places)
		if o.Outcome == history.Unknown {
			unknown++
			if slices.ContainsFunc(places, func(p place) bool { return p.appended() != "" }) {
				landed++
			}
		}
	}
	r.Note = fmt.Sprintf("%d entries; of %d sends of unknown outcome %d are in it", len(l.entries), unknown, landed)
}

// checkDamage: no fault of this run excuses a log that cannot be read.
func checkDamage(x *index, r *report) {
	if mayExit(x.h.Header.Faults) {
		return
	}
	for _, l := range x.h.Logs {
		for _, d := range l.Damages {
			r.add("damaged", fmt.Sprintf("what %s left is damaged: %s", l.Node, d))
		}
	}
}

// mergeLogs makes one log of all, which have to agree where they overlap.
func (x *index) mergeLogs(r *report) *logs {
	l := &logs{
		entries: map[uint64]*history.LogEntry{}, byPayload: map[string][]place{},
		appends: map[string]place{}, oldest: map[string]int{},
	}
	from := map[uint64]string{}
	for _, n := range x.h.Logs {
		l.whole = l.whole || n.First == 1
		for i := range n.Entries {
			e := &n.Entries[i]
			had := l.entries[e.Index]
			if had != nil && had.Content != e.Content {
				r.add("logs-differ", fmt.Sprintf("entry %d is one thing in the log of %s (term %d) and another in that of %s (term %d)",
					e.Index, from[e.Index], had.Term, n.Node, e.Term))
				return l
			}
			if had == nil || had.Hash == "" {
				l.entries[e.Index], from[e.Index] = e, n.Node
			}
		}
	}
	for _, e := range l.entries {
		for i := range e.Commands {
			l.add(place{e.Index, &e.Commands[i]})
		}
	}
	return l
}

func (l *logs) add(p place) {
	if d := p.command.PayloadDigest; d != "" {
		l.byPayload[d] = append(l.byPayload[d], p)
	}
	id := p.appended()
	if id == "" {
		return
	}
	l.appends[id] = p
	queue, number := splitID(id)
	if oldest, ok := l.oldest[queue]; !ok || number < oldest {
		l.oldest[queue] = number
	}
}

func splitID(id string) (queue string, number int) {
	queue, n, _ := strings.Cut(id, "-")
	number, _ = strconv.Atoi(n) // an id that is none is in no log
	return queue, number
}

// mayBeCut reports whether the message may have been appended before the logs
// begin: a queue's messages are numbered in their order.
func (l *logs) mayBeCut(id string) bool {
	queue, number := splitID(id)
	oldest, ok := l.oldest[queue]
	return !l.whole && (!ok || number < oldest)
}

// checkLogged: a message of which an answer tells was appended, once, as what
// it is said to be, and a majority has it.
func (x *index) checkLogged(r *report, l *logs, o *history.Op) {
	p, ok := l.appends[o.MessageID]
	switch {
	case !ok && !l.mayBeCut(o.MessageID):
		r.add("not-in-log", fmt.Sprintf("an answer names %s, and no entry of the log appended it", o.MessageID), o)
	case !ok:
	case (o.Status == http.StatusCreated || o.Kind == history.Recv || o.Kind == history.Inspect) && p.command.PayloadDigest != history.PayloadDigest(o.Payload):
		r.add("other-payload-in-log", fmt.Sprintf("entry %d of the log appended %s with another payload than %q", p.index, o.MessageID, o.Payload), o)
	default:
		x.checkMajority(r, p, o)
	}
}

// checkMajority: what is answered is in the logs of a majority. A log that
// begins later is of a node that has a snapshot of what came before.
func (x *index) checkMajority(r *report, p place, o *history.Op) {
	holders := 0
	for _, n := range x.h.Logs {
		if n.Last >= p.index {
			holders++
		}
	}
	if holders <= len(x.h.Header.Nodes)/2 {
		r.add("not-on-a-majority", fmt.Sprintf("%s was appended by entry %d, which only %d nodes have", o.MessageID, p.index, holders), o)
	}
}

// checkPlaces: the answer to a send agrees with what became of it in the log.
func (x *index) checkPlaces(r *report, o *history.Op, places []place) {
	if len(places) > 1 {
		r.add("proposed-twice", fmt.Sprintf("one send is in the log as entry %d and as entry %d", places[0].index, places[1].index), o)
	}
	neverSent := o.Status == 0 || o.Status == http.StatusServiceUnavailable
	for _, p := range places {
		id := p.appended()
		switch {
		case o.Outcome == history.Refused && neverSent:
			r.add("refused-but-in-log", fmt.Sprintf("a send was answered %d, which promises that it entered no log, and is entry %d", o.Status, p.index), o)
		case o.Outcome == history.Refused && id != "":
			r.add("refused-but-appended", fmt.Sprintf("a send was answered %d, which promises that nothing happened, and entry %d appended it as %s", o.Status, p.index, id), o)
		case id != "" && o.Outcome == history.OK && o.MessageID != id:
			r.add("wrong-id", fmt.Sprintf("a send was answered %d %s, and entry %d appended it as %s", o.Status, o.MessageID, p.index, id), o)
		case id != "" && x.messages[id] == nil && !x.queue(o.Queue).mayBeDeleted(o.Start):
			r.add("lost", fmt.Sprintf("entry %d of the log appended %s, which could not be received at the end", p.index, id), o)
		}
	}
}
