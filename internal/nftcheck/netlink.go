package nftcheck

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Attributes that golang.org/x/sys/unix lacks (linux/netfilter/nf_tables.h), and the flag of a table that is switched
// off.
const (
	tableDormant   = 0x1
	setHandle      = 16
	attributeFlags = unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER
)

// maxDumps is how often a table is listed where rules change under the reader.
const maxDumps = 5

// seed is that of all sums of this process.
var seed = maphash.MakeSeed()

// Table is a table of the network namespace that the calling thread is in.
type Table struct {
	Family uint8 // NFPROTO_IPV4 and so on
	Name   string
}

var _ Kernel = Table{}

// Generation implements Kernel.
func (t Table) Generation() (uint32, error) {
	var generation []byte
	err := t.ask(unix.NFT_MSG_GETGEN, 0, nil, func(answer attributes) {
		generation = answer[unix.NFTA_GEN_ID]
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("generation of nftables: %w", err)
	case len(generation) < 4:
		return 0, errors.New("the kernel does not tell the generation of nftables")
	}
	return binary.BigEndian.Uint32(generation), nil
}

// Listing implements Kernel.
func (t Table) Listing() (Listing, error) {
	var l Listing
	var err error
	for range maxDumps {
		if l, err = t.list(); !errors.Is(err, nl.ErrDumpInterrupted) && !errors.Is(err, unix.ENOENT) {
			break
		}
	}
	if err != nil {
		return Listing{}, fmt.Errorf("list the table %s: %w", t.Name, err)
	}
	return l, nil
}

func (t Table) list() (Listing, error) {
	l := Listing{Parts: map[string]Part{}}
	err := t.ask(unix.NFT_MSG_GETTABLE, 0, t.called(unix.NFTA_TABLE_NAME), func(answer attributes) {
		l.Active = answer.number(unix.NFTA_TABLE_FLAGS)&tableDormant == 0
	})
	if errors.Is(err, unix.ENOENT) {
		return l, nil
	}
	if err == nil {
		err = t.chains(&l)
	}
	if err == nil {
		err = t.rules(&l)
	}
	if err == nil {
		err = t.sets(&l)
	}
	return l, err
}

// add adds to a part.
func (l *Listing) add(name string, entries int, sum uint64) {
	part := l.Parts[name]
	part.Entries += entries
	part.Sum += sum // their order is told by what they are of
	l.Parts[name] = part
}

func (t Table) chains(l *Listing) error {
	changing := []uint16{unix.NFTA_CHAIN_USE, unix.NFTA_CHAIN_COUNTERS, unix.NFTA_CHAIN_PAD}
	return t.ask(unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP, t.called(unix.NFTA_CHAIN_TABLE), func(answer attributes) {
		if answer.text(unix.NFTA_CHAIN_TABLE) == t.Name { // most kernels return the chains of all tables
			for _, attribute := range changing {
				answer[attribute] = nil
			}
			l.add(answer.text(unix.NFTA_CHAIN_NAME), 0, answer.sum())
		}
	})
}

// rules have handles that are not used again, and tell those of the rules before them.
func (t Table) rules(l *Listing) error {
	return t.ask(unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP, t.called(unix.NFTA_RULE_TABLE), func(answer attributes) {
		l.add(answer.text(unix.NFTA_RULE_CHAIN), 1, answer.sum())
	})
}

func (t Table) sets(l *Listing) error {
	var named []string
	err := t.ask(unix.NFT_MSG_GETSET, unix.NLM_F_DUMP, t.called(unix.NFTA_SET_TABLE), func(answer attributes) {
		flags, name := answer.number(unix.NFTA_SET_FLAGS), answer.text(unix.NFTA_SET_NAME)
		if flags&unix.NFT_SET_ANONYMOUS != 0 {
			return
		}
		l.add(name, 0, maphash.Bytes(seed, answer[setHandle]))
		if flags&unix.NFT_SET_EVAL == 0 {
			named = append(named, name)
		}
	})
	for _, name := range named {
		if err == nil {
			err = t.elements(l, name)
		}
	}
	return err
}

// elements adds those of a set or map. The end of an interval is an element of its own, which does not count; one that
// comes twice, as the kernel resizes the set, counts once.
func (t Table) elements(l *Listing, set string) error {
	request := append(t.called(unix.NFTA_SET_ELEM_LIST_TABLE), attribute(unix.NFTA_SET_ELEM_LIST_SET, set))
	seen := map[uint64]struct{}{}
	var malformed error
	err := t.ask(unix.NFT_MSG_GETSETELEM, unix.NLM_F_DUMP, request, func(answer attributes) {
		malformed = errors.Join(malformed, eachAttribute(answer[unix.NFTA_SET_ELEM_LIST_ELEMENTS],
			func(_ uint16, element []byte) {
				of, err := parse(element)
				malformed = errors.Join(malformed, err)
				sum := of.sum()
				if _, again := seen[sum]; again {
					return
				}
				seen[sum] = struct{}{}
				counts := 1
				if of.number(unix.NFTA_SET_ELEM_FLAGS)&unix.NFT_SET_ELEM_INTERVAL_END != 0 {
					counts = 0
				}
				l.add(set, counts, sum)
			}))
	})
	return errors.Join(err, malformed)
}

// called is the attribute that names the table.
func (t Table) called(as int) []*nl.RtAttr { return []*nl.RtAttr{attribute(as, t.Name)} }

func attribute(as int, text string) *nl.RtAttr { return nl.NewRtAttr(as, nl.ZeroTerminated(text)) }

// ask sends a request to the kernel, and reads the messages that answer it.
func (t Table) ask(message, flags int, request []*nl.RtAttr, read func(attributes)) error {
	r := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|message, flags)
	r.AddData(&nl.Nfgenmsg{NfgenFamily: t.Family, Version: nl.NFNETLINK_V0})
	for _, attribute := range request {
		r.AddData(attribute)
	}
	var malformed error
	err := r.ExecuteIter(unix.NETLINK_NETFILTER, 0, func(answer []byte) bool {
		if len(answer) >= nl.SizeofNfgenmsg { // the header has the generation
			var of attributes
			if of, malformed = parse(answer[nl.SizeofNfgenmsg:]); malformed == nil {
				read(of)
			}
		}
		return malformed == nil
	})
	return errors.Join(err, malformed)
}

// attributes of a message, by their types, of which nftables has fewer.
type attributes [32][]byte

// parse reads attributes (https://docs.kernel.org/userspace-api/netlink/intro.html) without a copy: a table of thousands
// of Services has hundreds of thousands of them.
func parse(text []byte) (attributes, error) {
	var of attributes
	return of, eachAttribute(text, func(kind uint16, value []byte) {
		if int(kind) < len(of) {
			of[kind] = value
		}
	})
}

func eachAttribute(text []byte, call func(kind uint16, value []byte)) error {
	for len(text) >= unix.SizeofRtAttr {
		length := int(binary.NativeEndian.Uint16(text))
		if length < unix.SizeofRtAttr || length > len(text) {
			return errors.New("an answer of the kernel is malformed")
		}
		call(binary.NativeEndian.Uint16(text[2:])&^attributeFlags, text[unix.SizeofRtAttr:length])
		text = text[min(len(text), (length+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1)):]
	}
	return nil
}

func (a attributes) text(of uint16) string { return strings.TrimRight(string(a[of]), "\x00") }

func (a attributes) number(of uint16) uint32 {
	if len(a[of]) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(a[of])
}

// sum is that of all attributes.
func (a attributes) sum() uint64 {
	var sum uint64
	for of, value := range a {
		if value == nil {
			continue
		}
		sum += maphash.Bytes(seed, value) * (2*uint64(of) + 1)
	}
	return sum
}
