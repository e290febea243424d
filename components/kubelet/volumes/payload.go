package volumes

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quintet.dev/quintet/components/kubelet/downward"
)

// file is one file of a payload.
type file struct {
	data []byte
	mode int32
	uid  *int64 // owner, if not root
}

const defaultMode = int32(0o644)

func (m *Manager) payload(ctx context.Context, pod *v1.Pod, v *v1.Volume) (map[string]file, error) {
	switch {
	case v.ConfigMap != nil:
		return m.configMap(ctx, pod, v.ConfigMap.Name, v.ConfigMap.Items, mode(v.ConfigMap.DefaultMode),
			optional(v.ConfigMap.Optional))
	case v.Secret != nil:
		return m.secret(ctx, pod, v.Secret.SecretName, v.Secret.Items, mode(v.Secret.DefaultMode),
			optional(v.Secret.Optional))
	case v.DownwardAPI != nil:
		return m.downward(pod, v.DownwardAPI.Items, mode(v.DownwardAPI.DefaultMode))
	default:
		return m.projected(ctx, pod, v.Name, v.Projected)
	}
}

func mode(m *int32) int32 {
	if m == nil {
		return defaultMode
	}
	return *m
}

func optional(o *bool) bool { return o != nil && *o }

func (m *Manager) configMap(ctx context.Context, pod *v1.Pod, name string, items []v1.KeyToPath, mode int32,
	optional bool) (map[string]file, error) {
	object, err := m.Objects.ConfigMap(ctx, pod.Namespace, name)
	if apierrors.IsNotFound(err) && optional {
		return map[string]file{}, nil
	}
	if err != nil {
		return nil, err
	}
	data := make(map[string][]byte, len(object.Data)+len(object.BinaryData))
	for key, value := range object.Data {
		data[key] = []byte(value)
	}
	maps.Copy(data, object.BinaryData)
	files, err := pick(data, items, mode, optional)
	if err != nil {
		return nil, fmt.Errorf("configmap %q: %w", name, err)
	}
	return files, nil
}

func (m *Manager) secret(ctx context.Context, pod *v1.Pod, name string, items []v1.KeyToPath, mode int32,
	optional bool) (map[string]file, error) {
	object, err := m.Objects.Secret(ctx, pod.Namespace, name)
	if apierrors.IsNotFound(err) && optional {
		return map[string]file{}, nil
	}
	if err != nil {
		return nil, err
	}
	files, err := pick(object.Data, items, mode, optional)
	if err != nil {
		return nil, fmt.Errorf("secret %q: %w", name, err)
	}
	return files, nil
}

// pick selects keys and gives them paths; without items it takes all.
func pick(data map[string][]byte, items []v1.KeyToPath, mode int32, optional bool) (map[string]file, error) {
	files := map[string]file{}
	if len(items) == 0 {
		for key, value := range data {
			files[key] = file{data: value, mode: mode}
		}
		return files, nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok && optional {
			continue
		}
		if !ok {
			return nil, fmt.Errorf("references non-existent key: %s (it has %s)", item.Key,
				strings.Join(slices.Sorted(maps.Keys(data)), ", "))
		}
		f := file{data: value, mode: mode}
		if item.Mode != nil {
			f.mode = *item.Mode
		}
		files[path.Clean(item.Path)] = f
	}
	return files, nil
}

func (m *Manager) downward(pod *v1.Pod, items []v1.DownwardAPIVolumeFile, mode int32) (map[string]file, error) {
	files := map[string]file{}
	for _, item := range items {
		f := file{mode: mode}
		if item.Mode != nil {
			f.mode = *item.Mode
		}
		var text string
		var err error
		switch {
		case item.FieldRef != nil:
			text, err = downward.Field(pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			text, err = downward.Resource(pod, "", item.ResourceFieldRef, m.Allocatable())
		default:
			err = fmt.Errorf("item %q has neither fieldRef nor resourceFieldRef", item.Path)
		}
		if err != nil {
			return nil, err
		}
		f.data = []byte(text)
		files[path.Clean(item.Path)] = f
	}
	return files, nil
}

func (m *Manager) projected(ctx context.Context, pod *v1.Pod, volume string,
	source *v1.ProjectedVolumeSource) (map[string]file, error) {
	files := map[string]file{}
	defaults := mode(source.DefaultMode)
	for i := range source.Sources {
		var some map[string]file
		var err error
		switch p := &source.Sources[i]; {
		case p.ConfigMap != nil:
			some, err = m.configMap(ctx, pod, p.ConfigMap.Name, p.ConfigMap.Items, defaults,
				optional(p.ConfigMap.Optional))
		case p.Secret != nil:
			some, err = m.secret(ctx, pod, p.Secret.Name, p.Secret.Items, defaults, optional(p.Secret.Optional))
		case p.DownwardAPI != nil:
			some, err = m.downward(pod, p.DownwardAPI.Items, defaults)
		case p.ServiceAccountToken != nil:
			some, err = m.token(ctx, pod, p.ServiceAccountToken, defaults)
		case p.ClusterTrustBundle != nil:
			some, err = m.trustBundle(pod, p.ClusterTrustBundle, defaults)
		case p.PodCertificate != nil:
			some, err = m.certificate(pod, volume, i, p.PodCertificate, defaults)
		default:
			err = fmt.Errorf("source %d is of a kind that is not supported: use configMap, secret, downwardAPI, "+
				"serviceAccountToken, clusterTrustBundle or podCertificate", i)
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(files, some)
	}
	return files, nil
}

// token projects a service-account token.
func (m *Manager) token(ctx context.Context, pod *v1.Pod, p *v1.ServiceAccountTokenProjection,
	mode int32) (map[string]file, error) {
	token, err := m.Tokens.Get(ctx, pod, p)
	if err != nil {
		return nil, err
	}
	return map[string]file{path.Clean(p.Path): private(pod, []byte(token), mode)}, nil
}

// commonUser returns the user that all containers run as, nil if they differ or it is not set.
func commonUser(pod *v1.Pod) *int64 {
	var common *int64
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			var uid *int64
			if pod.Spec.SecurityContext != nil {
				uid = pod.Spec.SecurityContext.RunAsUser
			}
			if sc := list[i].SecurityContext; sc != nil && sc.RunAsUser != nil {
				uid = sc.RunAsUser
			}
			if uid == nil || (common != nil && *common != *uid) {
				return nil
			}
			common = uid
		}
	}
	return common
}
