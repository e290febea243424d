package podspec

import (
	"regexp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// pullPolicy is Always for images whose tag is latest, given or implied. Names that say nothing are not pulled at all.
func pullPolicy(image string) corev1.PullPolicy {
	name, digest, isDigested := strings.Cut(image, "@")
	name, isLatest := strings.CutSuffix(name, ":latest")
	switch {
	case isDigested && (!isLatest || !isDigest(digest)):
	case strings.LastIndexByte(name, ':') > strings.LastIndexByte(name, '/'): // another tag
	case !isLatest && len(name) == 64 && isHex(name): // the identifier of an image
	case isRepository(name):
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// The grammar of image references (https://pkg.go.dev/github.com/distribution/reference), as far as it tells whether
// there is a tag. That package is what the tests compare with: to import it costs every start of a program more than a
// millisecond.
var (
	registry = sync.OnceValue(func() *regexp.Regexp {
		const label = `[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?`
		return regexp.MustCompile(`^(?:` + label + `(?:\.` + label + `)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?$`)
	})
	repository = sync.OnceValue(func() *regexp.Regexp {
		const word = `[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*`
		return regexp.MustCompile(`^` + word + `(?:/` + word + `)*$`)
	})
)

// maxRepository is how long the name of a repository in its registry may be.
const maxRepository = 255

// isRepository tells whether a name is that of a repository, with or without its registry.
func isRepository(name string) bool {
	path := name
	host, rest, isPath := strings.Cut(name, "/")
	named := isPath && (host == "localhost" || strings.ContainsAny(host, ".:") || strings.ToLower(host) != host)
	if named && registry().MatchString(host) { // else it may be a part of the path after all
		path = rest
	}
	if isHub := !named || host == "docker.io" || host == "index.docker.io"; isHub && !strings.Contains(path, "/") {
		path = "library/" + path
	}
	return len(path) <= maxRepository && repository().MatchString(path)
}

func isDigest(text string) bool {
	algorithm, sum, _ := strings.Cut(text, ":")
	size := map[string]int{"sha256": 64, "sha384": 96, "sha512": 128}[algorithm]
	return size > 0 && len(sum) == size && isHex(sum)
}

func isHex(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }
