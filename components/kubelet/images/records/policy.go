package records

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// Policy tells for which images of the node a pod has to show that it could pull them (KEP-2535).
type Policy struct {
	kind     kubeletconfig.ImagePullCredentialsVerificationPolicy
	names    []string
	prefixes []string
}

// NewPolicy makes a policy; allowed are the images of NeverVerifyAllowlistedImages, with errors as upstream's kubelet
// has them.
func NewPolicy(kind kubeletconfig.ImagePullCredentialsVerificationPolicy, allowed []string) (Policy, error) {
	kinds := []kubeletconfig.ImagePullCredentialsVerificationPolicy{
		kubeletconfig.NeverVerify, kubeletconfig.NeverVerifyPreloadedImages, kubeletconfig.NeverVerifyAllowlistedImages,
		kubeletconfig.AlwaysVerify,
	}
	if !slices.Contains(kinds, kind) {
		return Policy{}, fmt.Errorf("unknown image pull credential verification policy: %v: use one of %v", kind, kinds)
	}
	if len(allowed) > 0 && kind != kubeletconfig.NeverVerifyAllowlistedImages {
		return Policy{}, fmt.Errorf("can't set `preloadedImagesVerificationAllowlist` if "+
			"`imagePullCredentialsVerificationPolicy` is not %q", kubeletconfig.NeverVerifyAllowlistedImages)
	}
	p := Policy{kind: kind}
	for _, pattern := range allowed {
		if err := p.allow(pattern); err != nil {
			return Policy{}, fmt.Errorf("preloadedImagesVerificationAllowlist: %w", err)
		}
	}
	return p, nil
}

func (p *Policy) allow(pattern string) error {
	name, isPrefix := strings.CutSuffix(pattern, "*")
	isPrefix = isPrefix && strings.HasSuffix(name, "/")
	switch {
	case pattern != strings.TrimSpace(pattern):
		return fmt.Errorf("leading/trailing spaces are not allowed: %s", pattern)
	case pattern == "":
		return fmt.Errorf("the supplied pattern is too short: %s", pattern)
	case strings.Contains(name, "*") || !isPrefix && name != pattern:
		return fmt.Errorf("not a valid wildcard pattern, only patterns ending with '/*' are allowed: %s", pattern)
	case isPrefix && name == "/":
		return errors.New("at least registry hostname is required")
	case isPrefix:
		p.prefixes = append(p.prefixes, name)
		return nil
	}
	image, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return fmt.Errorf("failed to parse as an image name: %w", err)
	}
	if name != image.Name() {
		return fmt.Errorf("neither tag nor digest is accepted in an image reference: %s", pattern)
	}
	p.names = append(p.names, name)
	return nil
}

// verifies tells whether a pod has to show its right to an image. pulled tells that this kubelet pulled it.
func (p Policy) verifies(image string, pulled bool) bool {
	switch p.kind {
	case kubeletconfig.NeverVerify:
		return false
	case kubeletconfig.NeverVerifyPreloadedImages:
		return pulled
	case kubeletconfig.NeverVerifyAllowlistedImages:
		return !p.allows(image)
	default:
		return true
	}
}

func (p Policy) allows(image string) bool {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return false
	}
	return slices.Contains(p.names, named.Name()) ||
		slices.ContainsFunc(p.prefixes, func(prefix string) bool { return strings.HasPrefix(named.Name(), prefix) })
}
