package compile

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	netutils "k8s.io/utils/net"

	"quintet.dev/quintet/components/policy/model"
)

// span is a range of addresses of one family, both ends included.
type span struct{ from, to netip.Addr }

// blocksID returns the set of all addresses of the blocks, or a zero value where there are none. A block that can't be
// read adds no address, and the error names it.
func blocksID(blocks []*networkingv1.IPBlock) (model.SetID, error) {
	var spans []span
	var errs []error
	for _, block := range blocks {
		of, err := blockSpans(block)
		spans, errs = append(spans, of...), append(errs, err)
	}
	err := errors.Join(errs...)
	if spans = merged(spans); len(spans) == 0 {
		return model.SetID{}, err
	}
	texts := make([]string, len(spans))
	for i, s := range spans {
		texts[i] = s.from.String() + "-" + s.to.String()
	}
	return model.SetID{Kind: model.KindRanges, Key: strings.Join(texts, ",")}, err
}

// blockElements are those of a set that blocksID returned.
func blockElements(id model.SetID) map[model.Element]int {
	elements := map[model.Element]int{}
	for text := range strings.SplitSeq(id.Key, ",") {
		from, to, _ := strings.Cut(text, "-")
		elements[model.Element{Addr: netip.MustParseAddr(from), To: netip.MustParseAddr(to)}] = 1
	}
	return elements
}

// blockSpans are the addresses of a block without those that it excepts.
func blockSpans(block *networkingv1.IPBlock) ([]span, error) {
	whole, err := prefixSpan(block.CIDR)
	if err != nil {
		return nil, err
	}
	var excepted []span
	for _, text := range block.Except {
		except, err := prefixSpan(text)
		if err != nil {
			return nil, err
		}
		if except.from.BitLen() == whole.from.BitLen() {
			excepted = append(excepted, except)
		}
	}
	var spans []span
	at, done := whole.from, false
	for _, except := range merged(excepted) {
		if except.to.Less(at) || whole.to.Less(except.from) {
			continue
		}
		if at.Less(except.from) {
			spans = append(spans, span{at, except.from.Prev()})
		}
		if !except.to.Less(whole.to) {
			done = true
			break
		}
		at = except.to.Next()
	}
	if !done {
		spans = append(spans, span{at, whole.to})
	}
	return spans, nil
}

func prefixSpan(text string) (span, error) {
	prefix, err := parsePrefix(text)
	if err != nil {
		return span{}, fmt.Errorf("ipBlock: %q is no CIDR", text)
	}
	prefix = prefix.Masked()
	last := prefix.Addr().AsSlice()
	for bit := prefix.Bits(); bit < 8*len(last); bit++ {
		last[bit/8] |= 1 << (7 - bit%8)
	}
	to, _ := netip.AddrFromSlice(last)
	return span{prefix.Addr(), to}, nil
}

// parsePrefix also reads leading zeros, as decimal, which objects of older API servers may have.
func parsePrefix(text string) (netip.Prefix, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix, nil
	}
	_, network, err := netutils.ParseCIDRSloppy(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.ParsePrefix(network.String())
}

// merged returns the same addresses in sorted ranges that neither overlap nor touch.
func merged(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to)) })
	var out []span
	for _, s := range spans {
		if n := len(out); n > 0 && out[n-1].from.BitLen() == s.from.BitLen() {
			last := &out[n-1]
			if next := last.to.Next(); !next.IsValid() || !next.Less(s.from) {
				if last.to.Less(s.to) {
					last.to = s.to
				}
				continue
			}
		}
		out = append(out, s)
	}
	return out
}
