package metricsserver

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// printer collects rows. Its columns are the name, the resources of the first row, and the window.
type printer struct {
	table   metav1.Table
	names   []v1.ResourceName
	include metav1.IncludeObjectPolicy
}

// tableOf prints metrics, or lists of them, as columns; other objects have none.
func tableOf(object runtime.Object, version, include string) (*metav1.Table, error) {
	p := &printer{include: metav1.IncludeObjectPolicy(include)}
	switch p.include {
	case "":
		p.include = metav1.IncludeMetadata
	case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid includeObject %q: use Metadata, Object or None", include))
	}
	p.table = metav1.Table{
		TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: metav1.GroupName + "/" + version},
		Rows:     []metav1.TableRow{},
		ColumnDefinitions: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "Name of the resource"},
		},
	}
	switch o := object.(type) {
	case *v1beta1.NodeMetrics:
		p.node(o)
	case *v1beta1.NodeMetricsList:
		for i := range o.Items {
			p.node(&o.Items[i])
		}
	case *v1beta1.PodMetrics:
		p.pod(o)
	case *v1beta1.PodMetricsList:
		for i := range o.Items {
			p.pod(&o.Items[i])
		}
	default:
		return nil, notAcceptable([]string{"Table"})
	}
	return &p.table, nil
}

func (p *printer) node(m *v1beta1.NodeMetrics) {
	m.TypeMeta = kind("NodeMetrics")
	p.row(m, m.ObjectMeta, m.Usage, m.Window.Duration)
}

func (p *printer) pod(m *v1beta1.PodMetrics) {
	sum := v1.ResourceList{}
	for _, c := range m.Containers {
		for name, used := range c.Usage {
			total := sum[name]
			total.Add(used)
			sum[name] = total
		}
	}
	m.TypeMeta = kind("PodMetrics")
	p.row(m, m.ObjectMeta, sum, m.Window.Duration)
}

func (p *printer) row(object runtime.Object, meta metav1.ObjectMeta, used v1.ResourceList, window time.Duration) {
	if p.names == nil {
		p.names = slices.Sorted(maps.Keys(used))
		for _, name := range p.names {
			p.table.ColumnDefinitions = append(p.table.ColumnDefinitions,
				metav1.TableColumnDefinition{Name: string(name), Type: "string", Format: "quantity"})
		}
		p.table.ColumnDefinitions = append(p.table.ColumnDefinitions,
			metav1.TableColumnDefinition{Name: "Window", Type: "string", Format: "duration"})
	}
	row := metav1.TableRow{Cells: []any{meta.Name}}
	for _, name := range p.names {
		quantity := used[name]
		row.Cells = append(row.Cells, quantity.String())
	}
	row.Cells = append(row.Cells, window.String())
	switch p.include {
	case metav1.IncludeMetadata:
		row.Object.Object = &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: p.table.APIVersion},
			ObjectMeta: meta,
		}
	case metav1.IncludeObject:
		row.Object.Object = object
	}
	p.table.Rows = append(p.table.Rows, row)
}
