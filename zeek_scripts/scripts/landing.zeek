##! Options of all scripts: the subscribers' addresses, the rotation of files, and the landing folder.

@load base/frameworks/logging

module GiScope;

export {
	## The subscribers' address pools. `giscope zeek-options` writes them from the networks file.
	const subscribers: set[subnet] = {} &redef;

	## Time between two rotations of the files of a live interface.
	const rotation_interval = 5min &redef;

	## Folder for finished files, on the same file system as Zeek's folder.
	## Empty: they stay where Zeek rotated them.
	const landing = "" &redef;

	## Raised by a live Zeek each rotation_interval, when its logs are rotated.
	global rotation: event();

	## Raised when the next interval begins.
	global await_rotation: event();

	## Moves a finished file to the landing folder of its UTC day. If that fails, the file stays, and
	## is moved with the next finished file, or by the next Zeek.
	##
	## path: The file.
	##
	## begun: The time at which it was opened.
	global land_file: function(path: string, begun: time);

	## Postprocessor of this package's logs: moves a rotated log to the landing folder.
	global land: function(info: Log::RotationInfo): bool;

	## Returns a file name that does not exist yet.
	global free_name: function(stem: string, suffix: string): string;

	## Returns a time in UTC as 2004-03-02-12-00-00. strftime() gives local time, in which one hour a
	## year occurs twice.
	global utc: function(t: time): string;
}

# If Zeek is killed, the next Zeek rotates its open logs.
redef LogAscii::enable_leftover_log_rotation = T;

event zeek_init()
	{
	# Network time is still 0, and jumps to the time of the first packet: begin the intervals later.
	if ( reading_live_traffic() )
		schedule 1sec { await_rotation() };
	}

event await_rotation()
	{
	# `-O ZAM` cannot compile a call within schedule.
	local wait = calc_next_rotate(rotation_interval);
	schedule wait { rotation() };
	}

event rotation()
	{
	event await_rotation();
	}

global not_landed: table[string] of time &ordered;

function utc(t: time): string
	{
	local seconds = double_to_count(floor(time_to_double(t)));

	# Days since 1 March of the year 0. Years begin on 1 March here, so a leap day is a year's last day.
	local day = seconds / 86400 + 719468;
	local in_era = day % 146097;
	local year = ( in_era - in_era / 1460 + in_era / 36524 - in_era / 146096 ) / 365;
	local in_year = in_era - ( 365 * year + year / 4 - year / 100 );
	local month = ( 5 * in_year + 2 ) / 153;

	return fmt("%d-%02d-%02d-%02d-%02d-%02d", day / 146097 * 400 + year + ( month < 10 ? 0 : 1 ),
	    month < 10 ? month + 3 : month - 9, in_year - ( 153 * month + 2 ) / 5 + 1,
	    seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
	}

# Returns the name of the file by which the next Zeek finds this log when it starts, and calls `land`.
function shadow(path: string): string
	{
	return sub(path, /[^\/]*$/, fmt(".shadow.%s", split_string(path, /\//)[-1]));
	}

function free_name(stem: string, suffix: string): string
	{
	local name = stem + suffix;
	local n = 1;
	while ( file_size(name) >= 0.0 )
		name = fmt("%s-%d%s", stem, ++n, suffix);

	return name;
	}

function try_to_land(path: string, begun: time): bool
	{
	local file_name = split_string(path, /\//)[-1];
	local kind = sub(file_name, /[-.][0-9].*/, "");
	local suffix = match_pattern(file_name, /(\.[a-zA-Z]+)+$/)$str;
	local folder = fmt("%s/%s", landing, utc(begun)[0:10]);
	local stem = fmt("%s/%s-%s.%s", folder, peer_description, kind, utc(begun));
	return mkdir(folder) && rename(path, free_name(stem, suffix));
	}

function land_file(path: string, begun: time)
	{
	if ( landing == "" )
		return;

	not_landed[path] = begun;
	local handled: set[string];
	for ( earlier, opened in not_landed )
		{
		if ( file_size(earlier) >= 0.0 && ! try_to_land(earlier, opened) )
			next;

		add handled[earlier];
		}

	for ( done in handled )
		{
		delete not_landed[done];
		if ( file_size(shadow(done)) >= 0.0 )
			unlink(shadow(done));
		}

	if ( path in not_landed )
		{
		local shadow_file = open(shadow(path));
		print shadow_file, match_pattern(path, /(\.[a-zA-Z]+)+$/)$str;
		print shadow_file, "GiScope::land";
		close(shadow_file);
		}
	}

function land(info: Log::RotationInfo): bool
	{
	land_file(info$fname, info$open);
	# If it returned F, Zeek would end the log's writer, and itself.
	return T;
	}
