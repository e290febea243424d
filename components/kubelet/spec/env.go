package spec

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quintet.dev/quintet/components/kubelet/downward"
	"quintet.dev/quintet/components/kubelet/static"
)

// environment is an ordered set of variables.
type environment struct {
	names  []string
	values map[string]string
}

func (e *environment) set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

func (e *environment) list() []string {
	list := make([]string, len(e.names))
	for i, name := range e.names {
		list[i] = name + "=" + e.values[name]
	}
	return list
}

// environment builds a container's variables: those of services, then envFrom, then env, the later winning.
func (b *Builder) environment(ctx context.Context, r *Request) (*environment, error) {
	pod, c := r.Pod, r.Container
	env := &environment{values: map[string]string{}}
	services, err := b.serviceVariables(pod)
	if err != nil {
		return nil, err
	}
	own := &environment{values: map[string]string{}}
	for _, from := range c.EnvFrom {
		if err := b.from(ctx, pod, from, own); err != nil {
			return nil, err
		}
	}
	lookup := func(name string) (string, bool) {
		if value, ok := own.values[name]; ok {
			return value, true
		}
		value, ok := services[name]
		return value, ok
	}
	for i := range c.Env {
		value, skip, err := b.value(ctx, r, &c.Env[i], lookup)
		if err != nil {
			return nil, err
		}
		if !skip {
			own.set(c.Env[i].Name, value)
		}
	}
	for _, name := range own.names {
		env.set(name, own.values[name])
	}
	for _, name := range slices.Sorted(maps.Keys(services)) {
		if _, taken := own.values[name]; !taken {
			env.set(name, services[name])
		}
	}
	return env, nil
}

func (b *Builder) from(ctx context.Context, pod *v1.Pod, from v1.EnvFromSource, env *environment) error {
	data := map[string]string{}
	switch {
	case from.ConfigMapRef != nil:
		object, err := b.Objects.ConfigMap(ctx, pod.Namespace, from.ConfigMapRef.Name)
		if apierrors.IsNotFound(err) && optional(from.ConfigMapRef.Optional) {
			return nil
		}
		if err != nil {
			return err
		}
		data = object.Data
	case from.SecretRef != nil:
		object, err := b.Objects.Secret(ctx, pod.Namespace, from.SecretRef.Name)
		if apierrors.IsNotFound(err) && optional(from.SecretRef.Optional) {
			return nil
		}
		if err != nil {
			return err
		}
		for key, value := range object.Data {
			data[key] = string(value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		env.set(from.Prefix+key, data[key])
	}
	return nil
}

func optional(o *bool) bool { return o != nil && *o }

// value is what one variable is set to; skip tells that an optional source is missing.
func (b *Builder) value(ctx context.Context, r *Request, e *v1.EnvVar,
	lookup func(string) (string, bool)) (value string, skip bool, err error) {
	pod, c := r.Pod, r.Container
	if e.ValueFrom == nil {
		return expand(e.Value, lookup), false, nil
	}
	switch from := e.ValueFrom; {
	case from.FieldRef != nil:
		value, err = downward.Field(pod, from.FieldRef.FieldPath)
	case from.ResourceFieldRef != nil:
		value, err = downward.Resource(pod, c.Name, from.ResourceFieldRef, b.Allocatable())
	case from.ConfigMapKeyRef != nil:
		return b.configMapKey(ctx, pod, from.ConfigMapKeyRef)
	case from.SecretKeyRef != nil:
		return b.secretKey(ctx, pod, from.SecretKeyRef)
	case from.FileKeyRef != nil && b.Simulated.Files: // nothing was written
		return "", true, nil
	case from.FileKeyRef != nil:
		return fileKey(r.Volumes, from.FileKeyRef)
	default:
		err = fmt.Errorf("variable %s: this kind of source is not supported: use fieldRef, resourceFieldRef, "+
			"configMapKeyRef, secretKeyRef or fileKeyRef", e.Name)
	}
	return value, false, err
}

func (b *Builder) configMapKey(ctx context.Context, pod *v1.Pod, ref *v1.ConfigMapKeySelector) (string, bool, error) {
	object, err := b.Objects.ConfigMap(ctx, pod.Namespace, ref.Name)
	if apierrors.IsNotFound(err) && optional(ref.Optional) {
		return "", true, nil
	}
	if err != nil {
		return "", false, err
	}
	if value, ok := object.Data[ref.Key]; ok {
		return value, false, nil
	}
	if optional(ref.Optional) {
		return "", true, nil
	}
	return "", false, fmt.Errorf("couldn't find key %s in ConfigMap %s/%s", ref.Key, pod.Namespace, ref.Name)
}

func (b *Builder) secretKey(ctx context.Context, pod *v1.Pod, ref *v1.SecretKeySelector) (string, bool, error) {
	object, err := b.Objects.Secret(ctx, pod.Namespace, ref.Name)
	if apierrors.IsNotFound(err) && optional(ref.Optional) {
		return "", true, nil
	}
	if err != nil {
		return "", false, err
	}
	if value, ok := object.Data[ref.Key]; ok {
		return string(value), false, nil
	}
	if optional(ref.Optional) {
		return "", true, nil
	}
	return "", false, fmt.Errorf("couldn't find key %s in Secret %s/%s", ref.Key, pod.Namespace, ref.Name)
}

// serviceVariables are the variables that tell of services
// (https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables).
func (b *Builder) serviceVariables(pod *v1.Pod) (map[string]string, error) {
	if b.Services == nil {
		return nil, nil
	}
	services, err := b.Services()
	if err != nil && !static.Is(pod) { // a static pod may be what serves the API
		return nil, err
	}
	links := pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks
	variables := map[string]string{}
	// The API server's Service is in the environment of every namespace; one of that name in the pod's takes
	// precedence.
	for _, own := range []bool{false, true} {
		for _, service := range services {
			master := service.Namespace == defaultNamespace && service.Name == "kubernetes"
			local := links && service.Namespace == pod.Namespace
			if (own && local) || (!own && master) {
				describe(service, variables)
			}
		}
	}
	return variables, nil
}

func describe(service *v1.Service, variables map[string]string) {
	ip := service.Spec.ClusterIP
	if ip == "" || ip == v1.ClusterIPNone || len(service.Spec.Ports) == 0 {
		return
	}
	prefix := strings.ToUpper(strings.ReplaceAll(service.Name, "-", "_"))
	variables[prefix+"_SERVICE_HOST"] = ip
	first := service.Spec.Ports[0]
	variables[prefix+"_SERVICE_PORT"] = strconv.Itoa(int(first.Port))
	for i := range service.Spec.Ports {
		p := &service.Spec.Ports[i]
		if p.Name != "" {
			variables[prefix+"_SERVICE_PORT_"+strings.ToUpper(strings.ReplaceAll(p.Name, "-",
				"_"))] = strconv.Itoa(int(p.Port))
		}
		protocol := string(p.Protocol)
		if protocol == "" {
			protocol = "TCP"
		}
		url := strings.ToLower(protocol) + "://" + net.JoinHostPort(ip, strconv.Itoa(int(p.Port)))
		if i == 0 {
			variables[prefix+"_PORT"] = url
		}
		port := fmt.Sprintf("%s_PORT_%d_%s", prefix, p.Port, strings.ToUpper(protocol))
		variables[port] = url
		variables[port+"_PROTO"] = strings.ToLower(protocol)
		variables[port+"_PORT"] = strconv.Itoa(int(p.Port))
		variables[port+"_ADDR"] = ip
	}
}

const defaultNamespace = "default"

// expand replaces $(NAME) by its value; $$ is a $, and a name that is not known stays as it is
// (https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/).
func expand(s string, lookup func(string) (string, bool)) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			out.WriteByte(s[i])
			continue
		}
		switch s[i+1] {
		case '$':
			out.WriteByte('$')
			i++
		case '(':
			end := strings.IndexByte(s[i:], ')')
			if end < 0 {
				out.WriteByte('$')
				continue
			}
			name := s[i+2 : i+end]
			if value, ok := lookup(name); ok {
				out.WriteString(value)
			} else {
				out.WriteString(s[i : i+end+1])
			}
			i += end
		default:
			out.WriteByte('$')
		}
	}
	return out.String()
}
