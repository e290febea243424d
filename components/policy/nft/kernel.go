package nft

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// kernel is nftables of this network namespace.
type kernel struct{}

var _ Kernel = kernel{}

// Generation implements Kernel.
func (kernel) Generation() (uint32, error) {
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETGEN, 0)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
	answers, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return 0, err
	}
	for _, answer := range answers {
		if len(answer) < nl.SizeofNfgenmsg {
			continue
		}
		attributes, err := nl.ParseRouteAttr(answer[nl.SizeofNfgenmsg:])
		if err != nil {
			return 0, err
		}
		for _, attribute := range attributes {
			if attribute.Attr.Type == unix.NFTA_GEN_ID && len(attribute.Value) >= 4 {
				return binary.BigEndian.Uint32(attribute.Value), nil
			}
		}
	}
	return 0, errors.New("the kernel does not tell it")
}

// Count implements Kernel. It is one call of the program nft, where knftables would take one for each set.
func (kernel) Count(ctx context.Context) (map[string]int, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "nft", "--json", "list", "table", "inet", tableName)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if strings.Contains(stderr.String(), "No such file or directory") {
			return map[string]int{}, nil
		}
		return nil, fmt.Errorf("nft: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return countListing(stdout.Bytes())
}

// listing is the answer of nft, as far as it is read.
type listing struct {
	Objects []struct {
		Chain    *named `json:"chain"`
		Set, Map *named
		Rule     *struct {
			Chain string `json:"chain"`
		} `json:"rule"`
	} `json:"nftables"`
}

type named struct {
	Name     string            `json:"name"`
	Elements []json.RawMessage `json:"elem"`
}

func countListing(text []byte) (map[string]int, error) {
	var all listing
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("answer of nft: %w", err)
	}
	counts := map[string]int{}
	for _, object := range all.Objects {
		for _, of := range []*named{object.Chain, object.Set, object.Map} {
			if of != nil {
				counts[of.Name] += len(of.Elements)
			}
		}
		if object.Rule != nil {
			counts[object.Rule.Chain]++
		}
	}
	return counts, nil
}
