package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

func sendBatch(c *call) *problem {
	if c.query.handle && !c.needSealer() {
		return problemUnavailable
	}
	encoding := c.requestEncoding()
	items, p := encoding.decodeSends(c.payload, c.s.maxPayloadBytes)
	if p != nil {
		return p
	}
	b := newBatch(len(items))
	for i := range items {
		item := &items[i]
		if item.fault != nil {
			b.refuse(i, item.fault)
			continue
		}
		command := b.add(i)
		command.Op, command.Spool, command.Queue = fsm.OpSend, c.spool, c.queue
		command.DelaySeconds, command.Payload = item.delaySeconds, item.payload
		command.Keyed, command.Key = item.keyed, item.key
	}
	c.carryOut(b, encoding, func(r *fsm.Result) itemAnswer {
		switch {
		case r.Code == fsm.CodeDuplicate:
			return itemAnswer{status: http.StatusOK, id: r.ID}
		case c.query.handle:
			return itemAnswer{status: http.StatusCreated, id: r.ID, handle: c.sealer.Seal(tokenOf(fsm.Handle, r))}
		default:
			return itemAnswer{status: http.StatusCreated, id: r.ID}
		}
	})
	return nil
}

func settleBatch(c *call) *problem {
	if !c.needSealer() {
		return problemUnavailable
	}
	encoding := c.requestEncoding()
	items, p := encoding.decodeSettles(c.payload)
	if p != nil {
		return p
	}
	b := newBatch(len(items))
	for i := range items {
		item := &items[i]
		if item.fault != nil {
			b.refuse(i, item.fault)
			continue
		}
		token, err := c.sealer.Open(fsm.Lease, item.lease)
		if err != nil {
			b.refuse(i, problemInvalidToken)
			continue
		}
		command := b.add(i)
		command.Op, command.Spool, command.Token, command.DelaySeconds = item.op, c.spool, token, item.delaySeconds
	}
	// Only a renewal has a time in its result.
	c.carryOut(b, encoding, func(r *fsm.Result) itemAnswer {
		return itemAnswer{status: http.StatusNoContent, leaseExpiresAtMs: r.LeaseExpiresAtMs}
	})
	return nil
}

func receiveBatch(c *call) *problem {
	if c.query.given&paramMax.bit() == 0 {
		return badRequest("The query parameter max, which says how many messages to deliver at most, is missing")
	}
	count := uint32(c.query.max)
	return c.receiveWith(func(ctx context.Context, wait time.Duration) (fsm.Result, error) {
		return c.s.broker.ReceiveMany(ctx, c.spool, c.queue, count, maxDeliveredBytes, wait)
	}, func(r *fsm.Result) error {
		encoding := c.answerEncoding()
		deliveries := make([]delivery, len(r.Deliveries))
		for i := range r.Deliveries {
			d := &r.Deliveries[i]
			deliveries[i] = delivery{d, c.sealer.Seal(leaseOf(d))}
		}
		c.items = len(deliveries)
		if err := c.answerEncoded(encoding, encoding.encodeDeliveries(deliveries)); err != nil {
			return err
		}
		c.s.metrics.items.WithLabelValues(c.op.name, outcomeOK).Add(float64(len(deliveries)))
		return c.flush()
	})
}

// leaseOf names a delivery.
func leaseOf(d *fsm.Delivery) fsm.Token {
	return fsm.Token{Sort: fsm.Lease, Queue: d.ID.Queue, Message: d.ID.Message, Moves: d.Moves}
}
