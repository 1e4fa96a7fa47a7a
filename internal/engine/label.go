package engine

import (
	"sync"
	"sync/atomic"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

const (
	// maxLabels is how many different names of services are ever used as labels of metrics. With those beyond it, and
	// those that nobody has declared, everything counts under one more: no reload and no wire makes it more.
	maxLabels  = 128
	otherLabel = "other"
	// maxProfiles is how many different profiles' numbers a dependency keeps apart, over all catalogs that it meets.
	maxProfiles = 32
)

// label is a name under which something is counted.
type label struct {
	id   uint8 // its place in a byLabel
	name string
}

// The labels that are no names.
var (
	others = &label{0, otherLabel}
	nobody = &label{1, ""}
)

// ownLabel is the id of this service's own name.
const ownLabel = 2

// labelSlots is room for every label: others, nobody and the names.
const labelSlots = maxLabels + 2

// labels are the names that this process has used. The zero value is ready to use.
type labels struct {
	mu    sync.Mutex
	names []*label // with ids from ownLabel
	own   *label

	code sync.Map // string → *declared: the dependencies that code names
}

// declared is a name that may become a label.
type declared struct {
	slug  string
	label atomic.Pointer[label] // nil = it was not used yet
}

// declaredNames returns the names that a catalog lists, as they stand on the wire. An entry and an owner are cut sooner
// than a caller is.
func declaredNames(c *profiles.Catalog) map[string]*declared {
	names := make(map[string]*declared, len(c.Dependencies)+len(c.Services))
	declare := func(name string) {
		for _, slug := range spellings(name) {
			if names[slug] == nil {
				names[slug] = &declared{slug: slug}
			}
		}
	}
	for name := range c.Dependencies {
		declare(name)
	}
	for name := range c.Services {
		declare(name)
	}
	return names
}

// spellings are those of a name on the wire.
func spellings(name string) [2]string {
	return [...]string{otelprop.Slug(name, otelprop.MaxOwner), otelprop.Slug(name, otelprop.MaxCaller)}
}

// declare lets the name of a dependency that code names be a label.
func (l *labels) declare(name string) {
	for _, slug := range spellings(name) {
		l.code.LoadOrStore(slug, &declared{slug: slug})
	}
}

// label returns the label for the dependency's own name, which may be one whatever the catalog lists.
func (d *Dependency) label() *label {
	if known := d.known.Load(); known != nil {
		return known
	}
	known := d.sdk.labels.intern(d.slug)
	d.known.Store(known)
	return known
}

// ownerLabel returns the label for the owner of a failure of d.
func (d *Dependency) ownerLabel(slug string) *label {
	if slug == d.slug {
		return d.label()
	}
	return d.sdk.label(slug)
}

// label returns the label for a name from the wire. It takes a lock only when a declared name is used for the first time.
func (s *SDK) label(slug string) *label {
	switch slug {
	case "":
		return nobody
	case s.ownerSlug, s.callerSlug:
		return s.labels.own
	}
	name := s.generation.Load().names[slug]
	if name == nil {
		if code, ok := s.labels.code.Load(slug); ok {
			name = code.(*declared)
		}
	}
	if name == nil {
		return others
	}
	if known := name.label.Load(); known != nil {
		return known
	}
	known := s.labels.intern(name.slug)
	name.label.Store(known)
	return known
}

// intern returns the label of a name, which is made unless there are too many.
func (l *labels) intern(name string) *label {
	if name == otherLabel {
		return others // who is called so shares its series
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, known := range l.names {
		if known.name == name {
			return known
		}
	}
	if len(l.names) == maxLabels {
		return others
	}
	made := &label{uint8(ownLabel + len(l.names)), name}
	l.names = append(l.names, made)
	return made
}

// all returns every label that something may be counted under.
func (l *labels) all() []*label {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*label{others, nobody}, l.names...)
}

// byLabel keeps a T for each label, made when it is first needed. Most is counted under the service's own name: that T is at
// hand. The zero value is ready to use.
type byLabel[T any] struct {
	own   T
	slots atomic.Pointer[[labelSlots]atomic.Pointer[T]]
}

// at returns the T of a label.
func (b *byLabel[T]) at(l *label) *T {
	if l.id == ownLabel {
		return &b.own
	}
	return made(&made(&b.slots)[l.id])
}

// look returns the T of a label, nil if there is none yet.
func (b *byLabel[T]) look(l *label) *T {
	if l.id == ownLabel {
		return &b.own
	}
	if slots := b.slots.Load(); slots != nil {
		return slots[l.id].Load()
	}
	return nil
}

// each calls f with every T there is.
func (b *byLabel[T]) each(f func(*T)) {
	f(&b.own)
	slots := b.slots.Load()
	if slots == nil {
		return
	}
	for i := range slots {
		if t := slots[i].Load(); t != nil {
			f(t)
		}
	}
}

// made returns what p points to, making it at first.
func made[T any](p *atomic.Pointer[T]) *T {
	if t := p.Load(); t != nil {
		return t
	}
	p.CompareAndSwap(nil, new(T))
	return p.Load()
}
