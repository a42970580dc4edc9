package fsm

import (
	"errors"
	"fmt"
)

var errNoChannel = errors.New("a claim that belongs to a channel comes before any channel")

// AddChannel adds a channel. Names must ascend.
func (b *Builder) AddChannel(r ChannelRecord) error {
	b.endQueue()
	b.endChannel()
	last, _, _ := b.m.channels.Max()
	if err := b.checkDocument(r.DocumentRecord, last, b.m.channels.Len()); err != nil {
		return fmt.Errorf("channel %w", err)
	}
	ch := b.m.newChannel(r.Name)
	ch.document = newDocument(ChannelDocument, r.Name, r.Document, r.Version, r.ChangedAtMs)
	ch.claims.totals = r.Totals
	b.channel = ch
	return nil
}

// AddChannelClaim adds a claim to the last channel.
func (b *Builder) AddChannelClaim(r ChannelClaimRecord) error {
	if b.channel == nil {
		return errNoChannel
	}
	x := channelClaim{
		key: r.Key, owner: r.Owner, claimedAtMs: r.ClaimedAtMs, lapsesAtMs: r.LapsesAtMs, windowEndsMs: r.WindowEndsMs, settled: r.Settled,
	}
	_, twice := b.channel.claims.byKey.Get(x)
	if twice || r.ClaimedAtMs > b.m.nowMs || r.WindowEndsMs <= r.ClaimedAtMs || r.Settled != (r.LapsesAtMs == 0) {
		return fmt.Errorf("a claim of channel %q is out of place", b.channel.document.name)
	}
	b.channel.claims.insert(x)
	return nil
}

// AddConnector adds a connector. Names must ascend.
func (b *Builder) AddConnector(r DocumentRecord) error {
	b.endChannel()
	last, _, _ := b.m.connectors.Max()
	if err := b.checkDocument(r, last, b.m.connectors.Len()); err != nil {
		return fmt.Errorf("connector %w", err)
	}
	b.m.setConnector(newDocument(ConnectorDocument, r.Name, r.Document, r.Version, r.ChangedAtMs))
	return nil
}

func (b *Builder) checkDocument(r DocumentRecord, last string, have int) error {
	switch {
	case !ValidName(r.Name), r.Name <= last, have >= MaxDocuments:
		return fmt.Errorf("%q is out of place", r.Name)
	case r.Version == 0, r.Version > b.m.revision, r.ChangedAtMs > b.m.nowMs, len(r.Document) > MaxDocumentBytes:
		return fmt.Errorf("%q has an impossible version or size", r.Name)
	}
	return nil
}

func (b *Builder) endChannel() {
	if b.channel != nil {
		b.m.doneChannel(b.channel)
		b.channel = nil
	}
}
