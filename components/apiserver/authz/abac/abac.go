// Package abac authorizes by a file of policies, one on each line
// (https://kubernetes.io/docs/reference/access-authn-authz/abac/). The file is read once.
package abac

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// group of the policies' versions.
const group = "abac.authorization.kubernetes.io"

// Policy is abac.authorization.kubernetes.io/v1beta1.
type Policy struct {
	metav1.TypeMeta `json:",inline"`
	Spec            Spec `json:"spec"`
}

// Spec is the subject and the permissions of a policy. "*" is every user, or everything.
type Spec struct {
	User            string `json:"user,omitempty"`
	Group           string `json:"group,omitempty"`
	Readonly        bool   `json:"readonly,omitempty"`
	APIGroup        string `json:"apiGroup,omitempty"`
	Resource        string `json:"resource,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
	NonResourcePath string `json:"nonResourcePath,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (p *Policy) DeepCopyObject() runtime.Object {
	out := *p
	return &out
}

// Unversioned is a policy without a version: its spec stands at the top.
type Unversioned struct {
	metav1.TypeMeta `json:",inline"`
	Spec            `json:",inline"`
}

// DeepCopyObject implements runtime.Object.
func (p *Unversioned) DeepCopyObject() runtime.Object {
	out := *p
	return &out
}

// Policies is an authorizer: the first policy that matches allows.
type Policies []Spec

var (
	_ authorizer.Authorizer   = Policies{}
	_ authorizer.RuleResolver = Policies{}
)

// Load reads a file. A line that is malformed is told with its number.
func Load(path string) (Policies, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	decoder := newDecoder()
	out := Policies{}
	scanner := bufio.NewScanner(file)
	for number := 1; scanner.Scan(); number++ {
		line := bytes.TrimSpace(scanner.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		spec, err := read(decoder, scanner.Bytes())
		if err != nil {
			return nil, fmt.Errorf("error reading policy file %s, line %d: %s: %w", path, number, scanner.Bytes(), err)
		}
		out = append(out, spec)
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("error reading policy file %s: %w", path, err)
	}
	return out, nil
}

func newDecoder() runtime.Decoder {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: group, Version: "v1beta1", Kind: "Policy"}, &Policy{})
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: group, Version: "v0", Kind: "Policy"}, &Unversioned{})
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
}

func read(decoder runtime.Decoder, line []byte) (Spec, error) {
	decoded, _, err := decoder.Decode(line, nil, nil)
	if runtime.IsMissingVersion(err) || runtime.IsMissingKind(err) || runtime.IsNotRegisteredError(err) {
		old := &Unversioned{}
		err := runtime.DecodeInto(decoder, line, old)
		return old.upgraded(), err
	}
	if err != nil {
		return Spec{}, err
	}
	switch p := decoded.(type) {
	case *Unversioned:
		return p.upgraded(), nil
	case *Policy:
		return forAll(p.Spec), nil
	}
	return Spec{}, fmt.Errorf("unrecognized object: %#v", decoded)
}

// forAll replaces * as user or group by the group of all authenticated users.
func forAll(s Spec) Spec {
	if s.User == "*" || s.Group == "*" {
		s.User, s.Group = "", user.AllAuthenticated
	}
	return s
}

// upgraded: what such a policy leaves out is everything, and it knows nothing of API groups.
func (p *Unversioned) upgraded() Spec {
	s := forAll(p.Spec)
	if s.User == "" && s.Group == "" {
		s.Group = user.AllAuthenticated
	}
	s.APIGroup, s.NonResourcePath = "*", ""
	if s.Namespace == "" && s.Resource == "" {
		s.NonResourcePath = "*"
	}
	if s.Namespace == "" {
		s.Namespace = "*"
	}
	if s.Resource == "" {
		s.Resource = "*"
	}
	return s
}

// Authorize implements authorizer.Authorizer.
func (p Policies) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	for i := range p {
		if p[i].about(a.GetUser()) && (a.IsReadOnly() || !p[i].Readonly) && p[i].covers(a) {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "No policy matched.", nil
}

// RulesFor implements authorizer.RuleResolver.
func (p Policies) RulesFor(_ context.Context, u user.Info, namespace string) (of []authorizer.ResourceRuleInfo,
	paths []authorizer.NonResourceRuleInfo, incomplete bool, err error) {
	for i := range p {
		s := &p[i]
		if !s.about(u) || s.Namespace != "*" && s.Namespace != namespace {
			continue
		}
		verbs := []string{"*"}
		if s.Readonly {
			verbs = []string{"get", "list", "watch"}
		}
		if s.Resource != "" {
			of = append(of, &authorizer.DefaultResourceRuleInfo{Verbs: verbs, APIGroups: []string{s.APIGroup},
				Resources: []string{s.Resource}})
		}
		if s.NonResourcePath != "" {
			paths = append(paths, &authorizer.DefaultNonResourceRuleInfo{Verbs: verbs,
				NonResourceURLs: []string{s.NonResourcePath}})
		}
	}
	return of, paths, false, nil
}

// about tells whether a policy applies to a user: the user and the group it names must match, and it must name one of
// them.
func (s *Spec) about(u user.Info) bool {
	if u == nil || s.User == "" && s.Group == "" {
		return false
	}
	return (s.User == "" || s.User == u.GetName()) && (s.Group == "" || slices.Contains(u.GetGroups(), s.Group))
}

func (s *Spec) covers(a authorizer.Attributes) bool {
	if a.IsResourceRequest() {
		return (s.Namespace == "*" || s.Namespace == a.GetNamespace()) &&
			(s.Resource == "*" || s.Resource == a.GetResource()) &&
			(s.APIGroup == "*" || s.APIGroup == a.GetAPIGroup())
	}
	if prefix, open := strings.CutSuffix(s.NonResourcePath, "*"); open {
		return strings.HasPrefix(a.GetPath(), strings.TrimRight(prefix, "*"))
	}
	return s.NonResourcePath == a.GetPath()
}
