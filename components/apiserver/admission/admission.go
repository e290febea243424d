// Package admission looks at every write after authorization: an ordered list of plug-ins changes objects, then checks
// them (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/).
package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/admission/dynamic"
	"quintet.dev/quintet/components/apiserver/admission/escalation"
	"quintet.dev/quintet/components/apiserver/objects"
)

// Config is what a Chain is made of.
type Config struct {
	// Only, if not nil, is all plug-ins that are on; it excludes Enable and Disable.
	Only []string
	// Enable and Disable change the set of plug-ins that are on by default; their order has no meaning.
	Enable, Disable []string
	// Without are plug-ins that do nothing even if they are on, as the feature is off that they are for. Their
	// configuration is read, and they are measured.
	Without []string
	// Objects is read by most plug-ins.
	Objects objects.Store
	// Authorizer answers the checks that plug-ins make themselves.
	Authorizer authorizer.Authorizer
	// AnyNodeAudience lets nodes ask for tokens for whatever audience.
	AnyNodeAudience bool
	// AnyNodeName lets nodes ask for certificates of whatever node.
	AnyNodeName bool
	// Escalation checks writes of roles and bindings; nil leaves that out.
	Escalation escalation.Checker
	Clock      clock.Clock
	// Dynamic is for webhooks and policies; its Objects and Authorizer are those above.
	Dynamic dynamic.Config
	// File configures plug-ins (--admission-control-config-file); "" for none.
	File string
	// Meter measures plug-ins; nil measures nothing. PodSecurity counts what that plug-in decides; nil counts nothing.
	Meter       Meter
	PodSecurity metrics.Recorder
	// NotReadySeconds and UnreachableSeconds are for DefaultTolerationSeconds; nil means 300.
	NotReadySeconds, UnreachableSeconds *int64
}

// Meter returns what takes the times of a plug-in, and of all of them, in a step.
type Meter interface {
	Plugin(name, step string) func(took time.Duration, o admission.Operation, rejected bool)
	Step(step string) func(took time.Duration, o admission.Operation, rejected bool)
}

// The steps of admission.
const (
	stepAdmit    = "admit"
	stepValidate = "validate"
)

// Chain calls its plug-ins in order. It is safe for concurrent use.
type Chain struct {
	mutators, validators []timed
	admitted, validated  took
	runners              []runner
	names                []string
	escalation           escalation.Checker // nil for none
}

// timed is a plug-in and what takes its times.
type timed struct {
	admission.Interface
	took took
}

type took func(d time.Duration, o admission.Operation, rejected bool)

// unmeasured is a Meter that records nothing.
type unmeasured struct{}

func (unmeasured) Plugin(string, string) func(time.Duration, admission.Operation, bool) {
	return func(time.Duration, admission.Operation, bool) {}
}

func (u unmeasured) Step(string) func(time.Duration, admission.Operation, bool) {
	return u.Plugin("", "")
}

// runner is a plug-in that does something beside answering requests. Run returns when ctx ends.
type runner interface {
	Run(ctx context.Context) error
}

var (
	_ admission.MutationInterface   = &Chain{}
	_ admission.ValidationInterface = &Chain{}
)

// New builds the chain, or names the plug-in that it does not know.
func New(cfg Config) (*Chain, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	cfg.Dynamic.Objects, cfg.Dynamic.Authorizer = cfg.Objects, cfg.Authorizer
	on, err := chosen(&cfg)
	if err != nil {
		return nil, err
	}
	files, err := readFile(cfg.File, on)
	if err != nil {
		return nil, fmt.Errorf("--admission-control-config-file: %w", err)
	}
	if cfg.Meter == nil {
		cfg.Meter = unmeasured{}
	}
	c := &Chain{admitted: cfg.Meter.Step(stepAdmit), validated: cfg.Meter.Step(stepValidate),
		escalation: cfg.Escalation}
	for _, p := range plugins {
		if !on[p.name] {
			continue
		}
		made, err := p.new(&cfg, files[p.name])
		if err != nil {
			return nil, fmt.Errorf("admission plugin %s: %w", p.name, err)
		}
		if slices.Contains(cfg.Without, p.name) {
			made = idle(made)
		}
		c.add(p.name, made, cfg.Meter)
	}
	return c, nil
}

func (c *Chain) add(name string, p admission.Interface, meter Meter) {
	c.names = append(c.names, name)
	if _, ok := p.(admission.MutationInterface); ok {
		c.mutators = append(c.mutators, timed{p, meter.Plugin(name, stepAdmit)})
	}
	if _, ok := p.(admission.ValidationInterface); ok {
		c.validators = append(c.validators, timed{p, meter.Plugin(name, stepValidate)})
	}
	if r, ok := p.(runner); ok {
		c.runners = append(c.runners, r)
	}
}

// chosen tells which plug-ins are on, by name.
func chosen(cfg *Config) (map[string]bool, error) {
	if cfg.Only == nil {
		return enabled(cfg.Enable, cfg.Disable)
	}
	if cfg.Enable != nil || cfg.Disable != nil {
		return nil,
			errors.New("admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive")
	}
	on := map[string]bool{}
	for _, name := range cfg.Only {
		if !slices.ContainsFunc(plugins, func(p plugin) bool { return p.name == name }) {
			return nil, fmt.Errorf("admission-control plugin %q is unknown", name)
		}
		on[name] = true
	}
	return on, nil
}

func enabled(enable, disable []string) (map[string]bool, error) {
	on := map[string]bool{}
	var known []string
	for _, p := range plugins {
		known = append(known, p.name)
		on[p.name] = !p.off
	}
	for _, list := range []struct {
		flag  string
		names []string
		value bool
	}{{"enable-admission-plugins", enable, true}, {"disable-admission-plugins", disable, false}} {
		for _, name := range list.names {
			if !slices.Contains(known, name) {
				return nil, fmt.Errorf("%s plugin %q is unknown; known are %s", list.flag, name,
					strings.Join(known, ", "))
			}
			on[name] = list.value
		}
	}
	for _, name := range disable {
		if slices.Contains(enable, name) {
			return nil, fmt.Errorf("%s in enable-admission-plugins and disable-admission-plugins overlapped", name)
		}
	}
	return on, nil
}

// Run lets plug-ins follow what they depend on, until ctx ends.
func (c *Chain) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, r := range c.runners {
		group.Go(func() error { return r.Run(ctx) })
	}
	group.Go(func() error { <-ctx.Done(); return nil })
	return group.Wait()
}

// Plugins returns the names of what is on, in order.
func (c *Chain) Plugins() []string { return slices.Clone(c.names) }

// Handles implements admission.Interface.
func (c *Chain) Handles(admission.Operation) bool { return true }

// Admit lets each plug-in change the object; the first error ends it. What comes of it must not grant more than the
// writer has: that is asked before anything else checks the object, and isn't measured, as it is no plug-in.
func (c *Chain) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if err := c.change(ctx, a, o); err != nil || c.escalation == nil {
		return err
	}
	return escalation.Check(ctx, c.escalation, a)
}

// change calls the plug-ins that change objects. When a webhook or a policy has changed it, all have another look,
// once.
func (c *Chain) change(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) (err error) {
	start := time.Now()
	defer func() { c.admitted(time.Since(start), a.GetOperation(), err != nil) }()
	if err := c.admit(ctx, a, o); err != nil {
		return err
	}
	again := a.GetReinvocationContext()
	if !again.ShouldReinvoke() {
		return nil
	}
	again.SetIsReinvoke()
	return c.admit(ctx, a, o)
}

func (c *Chain) admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return each(c.mutators, a.GetOperation(), func(p admission.Interface) error {
		return p.(admission.MutationInterface).Admit(ctx, a, o)
	})
}

// each calls the plug-ins that handle an operation; the first error ends it. The end of one is the beginning of the
// next.
func each(plugins []timed, o admission.Operation, call func(admission.Interface) error) error {
	start := time.Now()
	for i := range plugins {
		if !plugins[i].Handles(o) {
			continue
		}
		err := call(plugins[i].Interface)
		end := time.Now()
		plugins[i].took(end.Sub(start), o, err != nil)
		if err != nil {
			return err
		}
		start = end
	}
	return nil
}

// Validate lets each plug-in check the object as it will be stored; the first error ends it.
func (c *Chain) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	start := time.Now()
	err := each(c.validators, a.GetOperation(), func(p admission.Interface) error {
		return p.(admission.ValidationInterface).Validate(ctx, a, o)
	})
	c.validated(time.Since(start), a.GetOperation(), err != nil)
	return err
}
