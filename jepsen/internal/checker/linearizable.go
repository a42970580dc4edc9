package checker

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/spoolraft/spoolraft/jepsen/internal/history"
)

const (
	// searchOps is the longest history that is searched.
	searchOps = 20_000
	// searchTime bounds the search.
	searchTime = 20 * time.Second
	// searchKeyOps is the most operations of one key that are searched.
	searchKeyOps = 60
)

// checkLinearizable searches for an order of the sends of each key that
// explains every answer: the first appends, and all others name it. It knows
// nothing of time, and so looks only at queues whose window outlasts the run
// and was never changed.
func checkLinearizable(x *index, r *report) {
	if len(x.h.Ops) > searchOps {
		r.Note = fmt.Sprintf("not searched: more than %d operations", searchOps)
		return
	}
	deadline := time.Now().Add(searchTime)
	for _, name := range x.orderKeys {
		k, q := x.keys[name], x.queue(name.queue)
		if len(q.updates)+len(q.deletes) > 0 || q.window < x.runTime() || len(k.attempts) > searchKeyOps {
			continue
		}
		r.Checked += len(k.attempts)
		switch porcupine.CheckOperationsTimeout(keyModel, x.keyOperations(k), time.Until(deadline)) {
		case porcupine.Illegal:
			r.add("no-order", fmt.Sprintf("no order of the sends of the key %q explains their answers", name.key), firstOf(k.attempts, k.attempts[len(k.attempts)-1])...)
		case porcupine.Unknown:
			r.Note = fmt.Sprintf("the search was ended after %v", searchTime)
			return
		}
	}
}

// runTime is how long the history is.
func (x *index) runTime() int64 {
	if len(x.h.Ops) == 0 {
		return 0
	}
	return x.h.Ops[len(x.h.Ops)-1].End
}

// keyAnswer is what a send of a key may have answered.
type keyAnswer struct {
	status int    // 201, 200, or 0: it is not known whether it was appended
	id     string // where it is known
}

// keyModel is one key: "" while it is free, else the id that holds it.
var keyModel = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, _, output any) (bool, any) {
		held, a := state.(string), output.(keyAnswer)
		switch a.status {
		case 201:
			return held == "", a.id
		case 200:
			return held == a.id && held != "", held
		}
		if held == "" {
			return true, a.id // it was appended, under the id that was seen
		}
		return false, held
	},
	Equal: func(a, b any) bool { return a == b },
}

// keyOperations leaves out what changed and told nothing: refusals, and
// attempts of unknown outcome that left no trace.
func (x *index) keyOperations(k *key) []porcupine.Operation {
	var list []porcupine.Operation
	for _, o := range k.attempts {
		a := keyAnswer{o.Status, o.MessageID}
		end := o.End
		switch {
		case o.Outcome == history.OK:
		case o.Outcome == history.Unknown && len(x.attempts[o.Payload].found) > 0:
			m := x.attempts[o.Payload].found[0]
			a, end = keyAnswer{0, m.id}, m.existsBy()
		case o.ErrorKind == "dedup_claimed" && o.MessageID != "":
			a.status = 200
		default:
			continue
		}
		list = append(list, porcupine.Operation{ClientId: o.Client, Input: o.ID, Call: o.Start, Output: a, Return: max(end, o.Start)})
	}
	return list
}
