package fsm_test

import (
	"strings"

	"pgregory.net/rapid"

	"github.com/spoolraft/spoolraft/fsm"
	"github.com/spoolraft/spoolraft/fsm/model"
)

var (
	documentNames = []string{"in", "out"}
	owners        = []fsm.Owner{{1}, {2}, {3}}
)

// channelOp draws one of them, mostly of a channel that there is.
func (a *author) channelOp(t *rapid.T) fsm.Op {
	channels := fsm.Query{Kind: fsm.QueryDocuments, Document: fsm.ChannelDocument, Limit: 2}
	if len(a.preview.Read(channels).Documents) == 0 && !seldom(t, "no channel", 4) {
		return fsm.OpPutDocument
	}
	return oneOf(t, "channel op",
		fsm.OpClaim, fsm.OpClaim, fsm.OpClaim, fsm.OpClaim, fsm.OpClaimAndSend, fsm.OpClaimAndSend,
		fsm.OpSettleClaim, fsm.OpSettleClaim, fsm.OpReleaseClaim, fsm.OpPutDocument, fsm.OpDeleteDocument,
	)
}

// channelCommand fills in what a command of documents and claims takes.
func (a *author) channelCommand(t *rapid.T, c fsm.Command) fsm.Command {
	if c.Op != fsm.OpClaimAndSend {
		c.Spool = ""
	}
	c.Name = oneOf(t, "name", "in", "in", "in", "out")
	if seldom(t, "odd name", 40) {
		c.Name = oneOf(t, "odd", "", "no spaces")
	}
	if c.Op == fsm.OpPutDocument || c.Op == fsm.OpDeleteDocument {
		c.Kind = oneOf(t, "kind", fsm.ChannelDocument, fsm.ChannelDocument, fsm.ChannelDocument, fsm.ConnectorDocument)
		if seldom(t, "odd kind", 40) {
			c.Kind = oneOf[fsm.DocumentKind](t, "odd", 0, 3)
		}
		c.Version = oneOf[uint64](t, "version", 0, 0, 0, 1, 2, 3)
		if c.Op == fsm.OpPutDocument {
			c.Payload = oneOf(t, "document", "", "{}", "{}", `{"a":1}`)
			if seldom(t, "large", 60) {
				c.Payload = strings.Repeat("d", oneOf(t, "size", fsm.MaxDocumentBytes, fsm.MaxDocumentBytes+1))
			}
		}
		return c
	}
	c.Key, c.Owner = oneOf(t, "key", keys...), oneOf(t, "owner", owners...)
	if c.Op != fsm.OpReleaseClaim {
		c.WindowSeconds = oneOf[uint32](t, "window", 1, 3, 3, 10, fsm.MaxClaimWindowSeconds)
	}
	if c.Op == fsm.OpClaim {
		c.LapseMs = oneOf[uint32](t, "lapse", 1, 500, 2_000, 2_000, 5_000, fsm.MaxClaimLapseMs)
	}
	if c.Op == fsm.OpClaim || c.Op == fsm.OpClaimAndSend {
		c.MaxKeys = oneOf[uint32](t, "max keys", 1, 2, 3, 1_000, 1_000)
	}
	if c.Op == fsm.OpClaimAndSend {
		c.Queue, c.DelaySeconds, c.Payload = queueName(t), delay(t), oneOf(t, "payload", "", "x", "yy")
	}
	if seldom(t, "odd bound", 40) {
		oddBound(t, &c)
	}
	return c
}

// oddBound puts one bound of a claim where it may not be.
func oddBound(t *rapid.T, c *fsm.Command) {
	switch {
	case c.LapseMs != 0 && oneOf(t, "odd lapse", true, false):
		c.LapseMs = oneOf[uint32](t, "odd", 0, fsm.MaxClaimLapseMs+1)
	case c.MaxKeys != 0 && oneOf(t, "no keys", true, false):
		c.MaxKeys = 0
	case c.WindowSeconds != 0:
		c.WindowSeconds = oneOf[uint32](t, "odd", 0, fsm.MaxClaimWindowSeconds+1)
	}
}

// documentListings are the queries that show every document and its claims.
func documentListings() []fsm.Query {
	return []fsm.Query{
		{Kind: fsm.QueryDocuments, Document: fsm.ChannelDocument, Limit: 10},
		{Kind: fsm.QueryDocuments, Document: fsm.ChannelDocument, Limit: 1},
		{Kind: fsm.QueryDocuments, Document: fsm.ChannelDocument, Limit: 1, After: "in"},
		{Kind: fsm.QueryDocuments, Document: fsm.ConnectorDocument, Limit: 10},
		{Kind: fsm.QueryDocuments, Document: fsm.ConnectorDocument, Limit: 1, After: "a"},
	}
}

func documentQueries() (queries []fsm.Query) {
	for _, name := range append(documentNames, "missing") {
		for _, kind := range []fsm.DocumentKind{fsm.ChannelDocument, fsm.ConnectorDocument} {
			queries = append(queries, fsm.Query{Kind: fsm.QueryDocument, Document: kind, Name: name})
		}
	}
	return queries
}

// claimStats are those of all channels.
func claimStats(m *model.Model) (all []fsm.ClaimStats) {
	for _, d := range m.Read(fsm.Query{Kind: fsm.QueryDocuments, Document: fsm.ChannelDocument, Limit: 1000}).Documents {
		all = append(all, d.Claims)
	}
	return all
}
