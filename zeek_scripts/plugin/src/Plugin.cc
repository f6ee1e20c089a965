#include "Plugin.h"

#include <zeek/packet_analysis/Component.h>

#include "Headers.h"

namespace zeek::plugin::GiScope_Headers {

Plugin plugin;

zeek::plugin::Configuration Plugin::Configure() {
    AddComponent(new zeek::packet_analysis::Component("GISCOPE_HEADERS", giscope::Headers::Instantiate));

    zeek::plugin::Configuration config;
    config.name = "GiScope::Headers";
    config.description = "Headers of subscribers' packets, as a capture without payload";
    config.version = {1, 0, 0};
    return config;
}

} // namespace zeek::plugin::GiScope_Headers
