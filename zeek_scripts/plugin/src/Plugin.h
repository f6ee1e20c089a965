// Plugin GiScope::Headers: it writes the headers of subscribers' packets, as a capture without payload.
#pragma once

#include <zeek/plugin/Plugin.h>

namespace zeek::plugin::GiScope_Headers {

class Plugin : public zeek::plugin::Plugin {
protected:
    zeek::plugin::Configuration Configure() override;
};

} // namespace zeek::plugin::GiScope_Headers
