package fsm

// Bounds of what is configured by documents. Every node keeps all of them in
// memory.
const (
	MaxDocumentBytes = 64 << 10
	MaxDocuments     = 1_000 // of a kind
)

// DocumentKind says what a document configures.
type DocumentKind uint8

// The kinds. Numbers are part of the log format.
const (
	ChannelDocument   DocumentKind = 1 // a channel, which remembers claims
	ConnectorDocument DocumentKind = 2
)

func (k DocumentKind) known() bool { return k == ChannelDocument || k == ConnectorDocument }

// document is configuration that the machine keeps for its owners and does not
// look into. It is a value: a change makes another.
type document struct {
	name        string
	version     uint64
	changedAtMs int64
	text        string
	identity    digest // of the fields above
}

func newDocument(kind DocumentKind, name, text string, version uint64, changedAtMs int64) document {
	return document{
		name: name, text: text, version: version, changedAtMs: changedAtMs,
		identity: digest(5).word(uint64(kind)).text(name).word(version).word(uint64(changedAtMs)).text(text),
	}
}

// putDocument makes or replaces a document. The version of a document is the
// number of the change that made it, so that none comes twice, also when a name
// is used again.
func (m *Machine) putDocument(c *Command) Result {
	was, exists := m.document(c.Kind, c.Name)
	switch {
	case c.Version != 0 && c.Version != was.version:
		return Result{Code: CodeVersionConflict, Version: was.version}
	case !exists && m.documentCount(c.Kind) >= MaxDocuments:
		return Result{Code: CodeDocumentLimit, Max: MaxDocuments}
	}
	m.revision++
	d := newDocument(c.Kind, c.Name, c.Payload, m.revision, m.nowMs)
	if c.Kind == ConnectorDocument {
		m.setConnector(d)
		return Result{Version: d.version}
	}
	ch, ok := m.findChannel(c.Name)
	if !ok {
		ch = m.newChannel(c.Name)
	}
	ch.document = d
	m.doneChannel(ch)
	return Result{Version: d.version}
}

// deleteDocument removes a document; a channel's claims go with it.
func (m *Machine) deleteDocument(c *Command) Result {
	was, exists := m.document(c.Kind, c.Name)
	switch {
	case !exists:
		return Result{Code: CodeDocumentNotFound}
	case c.Version != 0 && c.Version != was.version:
		return Result{Code: CodeVersionConflict, Version: was.version}
	}
	m.revision++
	if c.Kind == ChannelDocument {
		m.dropChannel(c.Name)
		return Result{}
	}
	m.connectors.Delete(c.Name)
	m.content -= uint64(was.identity)
	return Result{}
}

func (m *Machine) setConnector(d document) {
	was, _ := m.connectors.Set(d.name, d)
	m.content += uint64(d.identity) - uint64(was.identity)
}

func (m *Machine) document(kind DocumentKind, name string) (document, bool) {
	if kind == ConnectorDocument {
		return m.connectors.Get(name)
	}
	ch, ok := m.channels.Get(name)
	if !ok {
		return document{}, false
	}
	return ch.document, true
}

func (m *Machine) documentCount(kind DocumentKind) int {
	if kind == ConnectorDocument {
		return m.connectors.Len()
	}
	return m.channels.Len()
}

// Revision changes with every change of a document, so that a node knows when
// to look at them again. 0: there never was one.
func (m *Machine) Revision() uint64 { return m.revision }

// readDocuments serves one document, or a page of them with what channels
// remember.
func (m *Machine) readDocuments(q *Query, a *Answer) {
	a.Revision = m.revision
	if q.Kind == QueryDocument {
		d, ok := m.document(q.Document, q.Name)
		if !ok {
			a.Code = CodeDocumentNotFound
			return
		}
		a.Documents = []DocumentInfo{d.info()}
		return
	}
	if q.Limit < 1 {
		a.Code = CodeInvalidCommand
		return
	}
	take := func(info DocumentInfo) bool {
		if info.Name <= q.After {
			return true
		}
		if a.More = len(a.Documents) == q.Limit; !a.More {
			a.Documents = append(a.Documents, info)
		}
		return !a.More
	}
	if q.Document == ConnectorDocument {
		m.connectors.Ascend(q.After, func(_ string, d document) bool { return take(d.info()) })
		return
	}
	m.channels.Ascend(q.After, func(_ string, ch *channel) bool {
		info := ch.document.info()
		info.Claims = ch.claims.stats()
		return take(info)
	})
}

func (d document) info() DocumentInfo {
	return DocumentInfo{Name: d.name, Version: d.version, ChangedAtMs: d.changedAtMs, Document: d.text}
}
