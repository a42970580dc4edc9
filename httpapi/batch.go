package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/spoolraft/spoolraft/fsm"
)

// Bounds of the calls that carry many items.
const (
	maxBatchItems = fsm.MaxReceiveCount
	// maxBatchBytes is the longest body. A payload in it has the limit that it
	// has anywhere.
	maxBatchBytes = 32 << 20
	// maxDeliveredBytes bounds the payloads of one answer, beyond one message.
	maxDeliveredBytes = 8 << 20
)

// batchEncoding is a way in which items travel. What it decodes may share the
// body's memory. A body that cannot be taken apart fails as a whole; an item with
// a mistake carries its fault and leaves the others alone.
type batchEncoding interface {
	mediaType() string
	decodeSends(body string, maxPayloadBytes int64) ([]sendItem, *problem)
	decodeSettles(body string) ([]settleItem, *problem)
	encodeAnswers(answers []itemAnswer) []byte
	encodeDeliveries(deliveries []delivery) []byte
}

// sendItem is one message to append, or what is wrong with it.
type sendItem struct {
	fault        *problem
	payload      string
	delaySeconds uint32
	keyed        bool
	key          fsm.Fingerprint
}

// settleItem is one message to settle, or what is wrong with it.
type settleItem struct {
	fault        *problem
	op           fsm.Op
	lease        string
	delaySeconds uint32
}

// itemAnswer is what became of one item.
type itemAnswer struct {
	status           int
	problem          *problem
	id               fsm.MessageID // of a send
	handle           string
	leaseExpiresAtMs int64 // of a renewal
}

// delivery is a leased message as it is answered.
type delivery struct {
	*fsm.Delivery
	lease string
}

// settleOps are the ways to settle an item, by their names and numbers.
var settleOps = [...]struct {
	name string
	op   fsm.Op
}{
	1: {"ack", fsm.OpAck},
	2: {"nack", fsm.OpNack},
	3: {"release", fsm.OpRelease},
	4: {"fail", fsm.OpFail},
	5: {"discard", fsm.OpDiscard},
	6: {"renew", fsm.OpRenew},
}

// requestEncoding is that of the body, which is also the answer's.
func (c *call) requestEncoding() batchEncoding {
	if values := c.r.Header["Content-Type"]; len(values) == 1 && isBinaryBatch(values[0]) {
		return binaryBatch{}
	}
	return jsonBatch{}
}

// answerEncoding is that which a call without a body asks for.
func (c *call) answerEncoding() batchEncoding {
	for _, value := range c.r.Header["Accept"] {
		for part := range strings.SplitSeq(value, ",") {
			if isBinaryBatch(part) {
				return binaryBatch{}
			}
		}
	}
	return jsonBatch{}
}

func isBinaryBatch(mediaType string) bool {
	name, _, _ := strings.Cut(mediaType, ";")
	return strings.EqualFold(strings.TrimSpace(name), typeBinaryBatch)
}

// batch is the commands of a call's good items, and the answers to all.
type batch struct {
	commands []fsm.Command
	items    []int // by command: the place of its item
	answers  []itemAnswer
}

func newBatch(items int) *batch {
	return &batch{
		commands: make([]fsm.Command, 0, items),
		items:    make([]int, 0, items),
		answers:  make([]itemAnswer, items),
	}
}

func (b *batch) refuse(item int, p *problem) {
	b.answers[item] = itemAnswer{status: p.status, problem: p}
}

// add returns the command of an item, to be filled in.
func (b *batch) add(item int) *fsm.Command {
	b.commands = append(b.commands, fsm.Command{})
	b.items = append(b.items, item)
	return &b.commands[len(b.commands)-1]
}

// doAll proposes commands together. As in do, a change that has begun is carried
// through.
func (c *call) doAll(commands []fsm.Command) []fsm.Outcome {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return c.s.broker.DoAll(ctx, commands)
}

// carryOut has the commands carried out and answers the call. succeeded makes the
// answer to a command that was not refused.
func (c *call) carryOut(b *batch, encoding batchEncoding, succeeded func(*fsm.Result) itemAnswer) {
	if len(b.commands) > 0 {
		for i, o := range c.doAll(b.commands) {
			p := problemOfOutcome(&o, c.queue)
			if p != nil {
				b.refuse(b.items[i], p)
			} else {
				b.answers[b.items[i]] = succeeded(&o.Result)
			}
		}
	}
	c.countItems(b.answers)
	_ = c.answerEncoded(encoding, encoding.encodeAnswers(b.answers))
}

func problemOfOutcome(o *fsm.Outcome, queue string) *problem {
	if o.Err != nil {
		return problemOfError(o.Err)
	}
	return problemOfResult(&o.Result, queue)
}

func (c *call) answerEncoded(encoding batchEncoding, body []byte) error {
	return c.answerBody(http.StatusOK, encoding.mediaType(), asString(body))
}

// countItems counts the items of a call by outcome.
func (c *call) countItems(answers []itemAnswer) {
	c.items = len(answers)
	var counts [4]itemCount // by far the most calls have no more outcomes
	seen := counts[:0]
	for i := range answers {
		seen = countItem(seen, answers[i].outcome())
	}
	for _, count := range seen {
		c.s.metrics.items.WithLabelValues(c.op.name, count.outcome).Add(float64(count.items))
		if count.outcome == outcomeDuplicate {
			c.s.metrics.dedupHits.Add(float64(count.items))
		}
	}
}

type itemCount struct {
	outcome string
	items   int
}

func countItem(seen []itemCount, outcome string) []itemCount {
	for i := range seen {
		if seen[i].outcome == outcome {
			seen[i].items++
			return seen
		}
	}
	return append(seen, itemCount{outcome, 1})
}

// outcome is the word that metrics know the answer by.
func (a *itemAnswer) outcome() string {
	switch {
	case a.problem != nil:
		return a.problem.label()
	case a.status == http.StatusOK:
		return outcomeDuplicate
	default:
		return outcomeOK
	}
}

// checkItemCount is nil where a batch has as many items as it may.
func checkItemCount(n uint64) *problem {
	if n < 1 || n > maxBatchItems {
		return badRequest("The batch must have 1 to %d items", maxBatchItems)
	}
	return nil
}
