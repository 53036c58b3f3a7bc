// Renders a chart as helm does and decodes each object as the API server's strict validation does: an unknown or
// repeated field, a wrong type or an unknown kind fails. Prints the objects.
//
//	render CHART [VALUES.yaml ...]
package main

import (
	"fmt"
	"io"
	"os"
	"sort"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// The key of a ConfigMap that holds a pod: what Spark makes executors of.
const podTemplate = "executor-pod.yaml"

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(path string, files []string) error {
	if err := monitoring.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	chart, err := loader.Load(path)
	if err != nil {
		return err
	}
	given := map[string]interface{}{}
	for _, file := range files {
		values, err := chartutil.ReadValuesFile(file)
		if err != nil {
			return err
		}
		given = chartutil.CoalesceTables(values.AsMap(), given)
	}
	release := chartutil.ReleaseOptions{Name: "test", Namespace: "streams", Revision: 1, IsInstall: true}
	// Values that the chart's schema does not know are refused here
	values, err := chartutil.ToRenderValues(chart, given, release, nil)
	if err != nil {
		return err
	}
	rendered, err := engine.Engine{Strict: true}.Render(chart, values)
	if err != nil {
		return err
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	names := make([]string, 0, len(rendered))
	for name := range rendered {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if strings.HasSuffix(name, ".tpl") || strings.HasSuffix(name, ".txt") {
			continue
		}
		documents := yaml.NewDocumentDecoder(io.NopCloser(strings.NewReader(rendered[name])))
		for buffer := make([]byte, 1<<20); ; {
			size, err := documents.Read(buffer)
			if err == io.EOF {
				break
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			document := buffer[:size]
			if strings.TrimSpace(string(document)) == "" {
				continue
			}
			if err := check(decoder, document); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			fmt.Printf("---\n%s\n", document)
		}
	}
	return nil
}

func check(decoder runtime.Decoder, document []byte) error {
	object, _, err := decoder.Decode(document, nil, nil)
	if err != nil {
		return err
	}
	if configuration, ok := object.(*core.ConfigMap); ok {
		for key, content := range configuration.Data {
			if strings.HasSuffix(key, podTemplate) {
				if _, _, err := decoder.Decode([]byte(content), nil, &core.Pod{}); err != nil {
					return fmt.Errorf("%s: %w", key, err)
				}
			}
		}
	}
	return nil
}
