package model

import (
	"cmp"
	"slices"

	"github.com/spoolraft/spoolraft/fsm"
)

// document is a channel or a connector. Only a channel has claims.
type document struct {
	kind        fsm.DocumentKind
	name        string
	version     uint64
	changedAtMs int64
	text        string
	claims      []channelClaim
	totals      fsm.ClaimTotals
}

type channelClaim struct {
	key          fsm.Fingerprint
	owner        fsm.Owner
	lapsesAtMs   int64
	windowEndsMs int64
	settled      bool
}

// over reports whether nothing is known of the claim any more.
func (c channelClaim) over(nowMs int64) bool {
	return c.windowEndsMs <= nowMs && (c.settled || c.lapsesAtMs <= nowMs)
}

func (m *Model) catchUpClaims() {
	for _, d := range m.documents {
		d.claims = slices.DeleteFunc(d.claims, func(c channelClaim) bool {
			if c.over(m.nowMs) && !c.settled {
				d.totals.Lapsed++
			}
			return c.over(m.nowMs)
		})
	}
}

// ClaimTimes are the times at which a claim lapses or is over.
func (m *Model) ClaimTimes() (times []int64) {
	for _, d := range m.documents {
		for _, c := range d.claims {
			times = append(times, c.windowEndsMs)
			if !c.settled {
				times = append(times, c.lapsesAtMs)
			}
		}
	}
	return times
}

func (m *Model) unspooled(c *fsm.Command) fsm.Result {
	if !wellFormedUnspooled(c) {
		return refuse(fsm.CodeInvalidCommand)
	}
	switch c.Op {
	case fsm.OpPutDocument:
		return m.put(c)
	case fsm.OpDeleteDocument:
		return m.deleteDocument(c)
	}
	d := m.documentNamed(fsm.ChannelDocument, c.Name)
	if d == nil {
		return refuse(fsm.CodeDocumentNotFound)
	}
	switch c.Op {
	case fsm.OpClaim:
		return m.claim(d, c)
	case fsm.OpSettleClaim:
		return m.settleClaim(d, c)
	default:
		return m.releaseClaim(d, c)
	}
}

func (m *Model) documentNamed(kind fsm.DocumentKind, name string) *document {
	for _, d := range m.documents {
		if d.kind == kind && d.name == name {
			return d
		}
	}
	return nil
}

func (m *Model) put(c *fsm.Command) fsm.Result {
	d := m.documentNamed(c.Kind, c.Name)
	if d == nil && c.Version != 0 {
		return refuse(fsm.CodeVersionConflict)
	}
	if d != nil && c.Version != 0 && c.Version != d.version {
		return fsm.Result{Code: fsm.CodeVersionConflict, Version: d.version}
	}
	if d == nil {
		if len(m.documentsOf(c.Kind)) >= 1_000 {
			return fsm.Result{Code: fsm.CodeDocumentLimit, Max: 1_000}
		}
		d = &document{kind: c.Kind, name: c.Name}
		m.documents = append(m.documents, d)
	}
	m.revision++
	d.version, d.changedAtMs, d.text = m.revision, m.nowMs, c.Payload
	return fsm.Result{Version: d.version}
}

func (m *Model) deleteDocument(c *fsm.Command) fsm.Result {
	d := m.documentNamed(c.Kind, c.Name)
	if d == nil {
		return refuse(fsm.CodeDocumentNotFound)
	}
	if c.Version != 0 && c.Version != d.version {
		return fsm.Result{Code: fsm.CodeVersionConflict, Version: d.version}
	}
	m.revision++
	m.documents = slices.DeleteFunc(m.documents, func(other *document) bool { return other == d })
	return fsm.Result{}
}

// find returns the place of a key's claim, -1 for none.
func (d *document) find(key fsm.Fingerprint) int {
	return slices.IndexFunc(d.claims, func(c channelClaim) bool { return c.key == key })
}

// admit says whether an owner may claim a key.
func (m *Model) admit(d *document, c *fsm.Command) fsm.Result {
	i := d.find(c.Key)
	if i < 0 {
		if len(d.claims) >= int(c.MaxKeys) {
			return fsm.Result{Code: fsm.CodeChannelFull, Max: uint64(c.MaxKeys)}
		}
		return fsm.Result{}
	}
	was := d.claims[i]
	if was.settled {
		return refuse(fsm.CodeDuplicate)
	}
	if was.owner != c.Owner && was.lapsesAtMs > m.nowMs {
		return fsm.Result{Code: fsm.CodeClaimInFlight, RetryAfterMs: was.lapsesAtMs - m.nowMs}
	}
	return fsm.Result{}
}

// take makes an admitted claim.
func (m *Model) take(d *document, c *fsm.Command, lapseMs int64) *channelClaim {
	i := d.find(c.Key)
	switch {
	case i < 0:
		d.totals.Claimed++
		d.claims = append(d.claims, channelClaim{})
		i = len(d.claims) - 1
	case d.claims[i].owner != c.Owner:
		d.totals.Claimed++
		d.totals.Lapsed++
	}
	d.claims[i] = channelClaim{
		key: c.Key, owner: c.Owner, lapsesAtMs: m.nowMs + lapseMs, windowEndsMs: m.nowMs + int64(c.WindowSeconds)*1000,
	}
	return &d.claims[i]
}

func (m *Model) claim(d *document, c *fsm.Command) fsm.Result {
	if r := m.admit(d, c); r.Code != fsm.CodeOK {
		return r
	}
	return fsm.Result{LeaseExpiresAtMs: m.take(d, c, int64(c.LapseMs)).lapsesAtMs}
}

func (m *Model) settleClaim(d *document, c *fsm.Command) fsm.Result {
	i := d.find(c.Key)
	if i < 0 || d.claims[i].owner != c.Owner {
		return refuse(fsm.CodeClaimLost)
	}
	if !d.claims[i].settled {
		d.totals.Settled++
		d.claims[i].settled = true
		d.claims[i].windowEndsMs = m.nowMs + int64(c.WindowSeconds)*1000
	}
	return fsm.Result{}
}

func (m *Model) releaseClaim(d *document, c *fsm.Command) fsm.Result {
	i := d.find(c.Key)
	if i < 0 || d.claims[i].owner != c.Owner || d.claims[i].settled {
		return refuse(fsm.CodeClaimLost)
	}
	d.totals.Released++
	d.claims = slices.Delete(d.claims, i, i+1)
	return fsm.Result{}
}

func (m *Model) claimAndSend(c *fsm.Command) fsm.Result {
	d := m.documentNamed(fsm.ChannelDocument, c.Name)
	if d == nil {
		return refuse(fsm.CodeDocumentNotFound)
	}
	if r := m.admit(d, c); r.Code != fsm.CodeOK {
		return r
	}
	q, refusal := m.target(c)
	if q == nil {
		return refusal
	}
	if full := m.full(c, nil); full.Code != fsm.CodeOK {
		return full
	}
	m.take(d, c, 0).settled = true
	d.totals.Settled++
	return m.add(q, c)
}

func (m *Model) documentsOf(kind fsm.DocumentKind) (all []*document) {
	for _, d := range m.documents {
		if d.kind == kind {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b *document) int { return cmp.Compare(a.name, b.name) })
	return all
}

// Document answers QueryDocument.
func (m *Model) Document(q fsm.Query) fsm.Answer {
	d := m.documentNamed(q.Document, q.Name)
	if d == nil {
		return fsm.Answer{Code: fsm.CodeDocumentNotFound, Revision: m.revision}
	}
	return fsm.Answer{Revision: m.revision, Documents: []fsm.DocumentInfo{d.info()}}
}

// Documents answers QueryDocuments.
func (m *Model) Documents(q fsm.Query) fsm.Answer {
	a := fsm.Answer{Revision: m.revision}
	for _, d := range m.documentsOf(q.Document) {
		if d.name <= q.After {
			continue
		}
		info := d.info()
		info.Claims.Totals = d.totals
		for _, c := range d.claims {
			if c.settled {
				info.Claims.Settled++
			} else {
				info.Claims.Open++
			}
		}
		a.Documents = append(a.Documents, info)
	}
	a.Documents, a.More = page(a.Documents, q.Limit)
	return a
}

func (d *document) info() fsm.DocumentInfo {
	return fsm.DocumentInfo{Name: d.name, Version: d.version, ChangedAtMs: d.changedAtMs, Document: d.text}
}
